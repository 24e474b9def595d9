#include "model/checkpoint/formats/mapped_file.h"
#include "model/checkpoint/formats/safetensors.h"
#include "tests/as_nobody.h"
#include "tests/cases.h"
#include "tests/error_matchers.h"
#include "tests/model/checkpoint/formats/safetensors_bytes.h"
#include "tests/model/checkpoint/formats/torch/pickle_bytes.h"
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

namespace hydrascope::checkpoint {
namespace {

namespace fs = std::filesystem;
using hydrascope::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(MappedFileTest, MapsAndMoves) {
  const TemporaryFolder folder;
  MappedFile first(folder.write("a", "abc"));
  MappedFile second(std::move(first));
  EXPECT_EQ(text_of(second.bytes()), "abc");
  second = MappedFile(folder.write("b", "de"));
  EXPECT_EQ(text_of(second.bytes()), "de");
  EXPECT_THAT(MappedFile(folder.write("empty", "")).bytes(), IsEmpty());
}

TEST(MappedFileTest, ReleasedPagesReadTheSameAndOtherMemoryStays) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 300000; ++i) text += std::to_string(i) + ",";
  std::ofstream(folder.path() / "a") << text;
  const MappedFile file(folder.path() / "a");
  const auto as_text = [&] {
    return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  };
  ASSERT_EQ(as_text(), text);
  release_pages(file.bytes().subspan(100, 1'100'000));
  release_pages(file.bytes());
  EXPECT_EQ(as_text(), text);
  std::string heap = text;
  release_pages(std::as_bytes(std::span(heap)));
  EXPECT_EQ(heap, text);
}

TEST(MappedFileTest, RefusesWhatIsNoReadableFile) {
  const TemporaryFolder folder;
  EXPECT_ERROR(MappedFile(folder.path() / "absent"), not_found, "no such file", "absent");
  EXPECT_ERROR(MappedFile(folder.write("file", "") / "below"), not_found, "no such file");
  EXPECT_ERROR(MappedFile(folder.path()), unreadable, "found a folder");
  fs::create_symlink("/absent", folder.path() / "dead");
  EXPECT_ERROR(MappedFile(folder.path() / "dead"), not_found, "a link to one that does not exist");
  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_ERROR(MappedFile(pipe), unreadable, "found a pipe or a device");
}

TEST(MappedFileTest, RefusesFilesWithoutPermission) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("secret", "abc");
  fs::permissions(file, fs::perms::none);
  const hydrascope::testing::AsNobody nobody(folder.path());
  EXPECT_ERROR(MappedFile{file}, unreadable, "cannot be opened", "secret");
}

TEST(SafetensorsFileTest, FindsTensorsByName) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "a.safetensors";
  write_safetensors(path,
                    std::vector{view("b", Dtype::U8, {1}, "2"), view("c", Dtype::F16, {1}, "33"),
                                view("a", Dtype::U8, {1}, "1")},
                    {});
  SafetensorsFile file = SafetensorsFile::open(path);
  const SafetensorsFile moved = std::move(file);
  EXPECT_THAT(names(moved.tensors()), ElementsAre("c", "a", "b"));
  for (const auto& [name, data] : {std::pair{"a", "1"}, {"b", "2"}, {"c", "33"}}) {
    ASSERT_NE(moved.find(name), nullptr) << name;
    EXPECT_EQ(text_of(moved.find(name)->data), data);
  }
  for (const char* absent : {"", "aa", "d"}) EXPECT_EQ(moved.find(absent), nullptr);
  EXPECT_EQ(SafetensorsFile().find("a"), nullptr);
}

TEST(SafetensorsFileTest, ErrorsNameTheFile) {
  const TemporaryFolder folder;
  EXPECT_ERROR(SafetensorsFile::open(folder.write("x.safetensors", "")), empty, "x.safetensors");
  EXPECT_ERROR(SafetensorsFile::open(folder.path()), unreadable, "found a folder");
}

// Shards.

class ShardedSafetensorsTest : public ::testing::Test {
 protected:
  ShardedSafetensorsTest() {
    write_shard("1.safetensors", {view("a", Dtype::U8, {1}, "a"), view("b", Dtype::U8, {1}, "b")});
    write_shard("2.safetensors", {view("c", Dtype::U8, {1}, "c")});
  }
  void write_shard(const char* name, const std::vector<TensorView>& tensors,
                   const Metadata& metadata = {{"format", "pt"}}) const {
    write_safetensors(folder_.path() / name, tensors, metadata);
  }
  [[nodiscard]] SafetensorsFile open(const std::string& index) const {
    return SafetensorsFile::open(folder_.write("model.safetensors.index.json", index));
  }
  /// `weight_map` as it is.
  [[nodiscard]] SafetensorsFile open_map(const std::string& weight_map) const {
    return open(R"({"metadata":{"total_size":3.0},"weight_map":)" + weight_map + "}\n");
  }

  TemporaryFolder folder_;
};

constexpr const char* kMap = R"({"c":"2.safetensors","a":"1.safetensors","b":"1.safetensors"})";

TEST_F(ShardedSafetensorsTest, IsOneTable) {
  const SafetensorsFile file = open_map(kMap);
  EXPECT_THAT(names(file.tensors()), ElementsAre("a", "b", "c"));
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}}));
  EXPECT_EQ(text_of(file.find("c")->data), "c");
}

TEST_F(ShardedSafetensorsTest, ShardsMayBeTorchFiles) {
  using hydrascope::testing::dict;
  const auto shard = [](const char* name) {
    return hydrascope::testing::torch_zip(
        dict({{name, hydrascope::testing::tensor(
                         hydrascope::testing::storage("ByteStorage", "0", 1), 0, {1}, {1})}}),
        {{"0", name}});
  };
  folder_.write("pytorch_model-00001-of-00002.bin", shard("a"));
  folder_.write("pytorch_model-00002-of-00002.bin", shard("b"));
  const fs::path index = folder_.write(
      "pytorch_model.bin.index.json",
      R"({"weight_map":{"a":"pytorch_model-00001-of-00002.bin","b":"pytorch_model-00002-of-00002.bin"}})");
  const SafetensorsFile file = SafetensorsFile::open(index);
  EXPECT_EQ(file.format(), "torch_zip");
  EXPECT_THAT(names(file.tensors()), ElementsAre("a", "b"));
  EXPECT_EQ(text_of(file.find("b")->data), "b");
  folder_.write("pytorch_model-00002-of-00002.bin", shard("c"));
  EXPECT_ERROR(SafetensorsFile::open(index), decode_failed, "tensor \"b\" is not in");
}

TEST_F(ShardedSafetensorsTest, AnIndexIsKnownByItsContent) {
  const fs::path file = folder_.write("index.txt", R"({"weight_map": )" + std::string(kMap) + "}");
  EXPECT_THAT(names(SafetensorsFile::open(file).tensors()), ElementsAre("a", "b", "c"));
  EXPECT_ERROR(SafetensorsFile::open(folder_.write("a.json", "{\"a\": 1}")), unsupported_format,
               "a JSON text");
}

TEST_F(ShardedSafetensorsTest, RefusesBrokenIndexes) {
  for (const testing::Json& row :
       testing::read_cases("model/checkpoint/formats/broken_indexes.jsonl"))
    testing::expect_case(row, [&] {
      const SafetensorsFile file =
          row.contains("map") ? open_map(row["map"])
                              : open(testing::bytes_in(row.at("index").get<std::string>()));
    });
}

TEST_F(ShardedSafetensorsTest, RefusesShardsThatContradictEachOther) {
  const std::vector again{view("a", Dtype::U8, {1}, "x"), view("c", Dtype::U8, {1}, "c")};
  write_shard("2.safetensors", again);
  EXPECT_ERROR(open_map(kMap), decode_failed,
               "tensor \"a\" is both in \"1.safetensors\" and in \"2.safetensors\"");
  write_shard("2.safetensors", {again[1]}, {{"format", "np"}});
  EXPECT_ERROR(open_map(kMap), decode_failed, "__metadata__ \"format\": \"np\"", "\"pt\"",
               "2.safetensors");
}

TEST_F(ShardedSafetensorsTest, ErrorsInAShardNameTheShard) {
  folder_.write("2.safetensors", "GGUF");
  EXPECT_ERROR(open_map(kMap), unsupported_format, "GGUF", "2.safetensors");
}

}  // namespace
}  // namespace hydrascope::checkpoint
