#include "model/checkpoint/formats/safetensors.h"
#include "tests/error_matchers.h"
#include "tests/model/checkpoint/formats/safetensors_bytes.h"
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <csignal>
#include <limits>
#include <map>
#include <sys/resource.h>
#include <sys/stat.h>

namespace hydrascope::checkpoint {
namespace {

namespace fs = std::filesystem;
using hydrascope::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::StartsWith;

class SafetensorsWriterTest : public ::testing::Test {
 protected:
  [[nodiscard]] fs::path path() const { return folder_.path() / "a.safetensors"; }
  void write(const std::vector<TensorView>& tensors, const Metadata& metadata = {}) const {
    write_safetensors(path(), tensors, metadata);
  }
  [[nodiscard]] std::vector<std::string> listing() const {
    std::vector<std::string> files;
    for (const auto& item : fs::directory_iterator(folder_.path())) {
      files.push_back(item.path().filename().native());
    }
    return files;
  }

  TemporaryFolder folder_;
};

TEST_F(SafetensorsWriterTest, WritesTheseBytes) {
  write({view("b", Dtype::U8, {2}, "bb"), view("a", Dtype::U8, {1, 1}, "a"),
         view("z", Dtype::F32, {}, "zzzz")},
        {{"k", "v\n"}, {"format", "pt"}});
  std::string header = R"({"__metadata__":{"format":"pt","k":"v\n"},)"
                       R"("z":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                       R"("a":{"dtype":"U8","shape":[1,1],"data_offsets":[4,5]},)"
                       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[5,7]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(read_bytes(path()), file_of(header, "zzzzabb"));
  EXPECT_THAT(listing(), ElementsAre("a.safetensors"));
}

TEST_F(SafetensorsWriterTest, WritesNothingButBraces) {
  write({});
  EXPECT_EQ(read_bytes(path()), file_of("{}      "));
}

TEST_F(SafetensorsWriterTest, OrderOfTensorsDoesNotMatter) {
  std::vector tensors{view("a", Dtype::U8, {1}, "a"), view("c", Dtype::F16, {1}, "cc"),
                      view("b", Dtype::BF16, {1}, "bb"), view("d", Dtype::F64, {0}, "")};
  write(tensors);
  const std::string first = read_bytes(path());
  EXPECT_THAT(names(SafetensorsFile::open(path()).tensors()), ElementsAre("d", "b", "c", "a"));
  std::ranges::reverse(tensors);
  write(tensors);
  EXPECT_EQ(read_bytes(path()), first);
}

TEST_F(SafetensorsWriterTest, RoundTripKeepsEveryBit) {
  const std::array nans{std::bit_cast<float>(0x7FA12345U), std::bit_cast<float>(0xFFC00001U),
                        std::numeric_limits<float>::infinity(), -0.0F};
  const Metadata metadata{{"quotes \" and \\", "line\n\x01\x7F"}, {"", "€ 𝄞"}};
  const std::string name = "blocks.0.\"ünïcode\"\t";
  const TensorView tensor{name, Dtype::F32, {2, 2}, std::as_bytes(std::span(nans))};
  write({tensor, view("empty", Dtype::I64, {3, 0}, ""), view("one", Dtype::BOOL, {}, "\x01")},
        metadata);
  const SafetensorsFile file = SafetensorsFile::open(path());
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_NE(file.find(name), nullptr);
  EXPECT_EQ(text_of(file.find(name)->data), text_of(tensor.data));
  EXPECT_THAT(file.find(name)->shape, ElementsAre(2, 2));
  EXPECT_THAT(file.find("empty")->shape, ElementsAre(3, 0));
  EXPECT_THAT(file.find("one")->shape, IsEmpty());
}

/// scripts/make/make_safetensors_fixture.py has the numbers: 0, 1, -2.5, 3, 0.5, 96, and for
/// integers what is left of their magnitudes.
TEST_F(SafetensorsWriterTest, ReadsAndWritesAgainWhatTheLibraryWrote) {
  struct Stored {
    Dtype dtype;
    std::string_view hex;
    std::vector<std::int64_t> shape{2, 3};
  };
  const std::map<std::string, Stored> expected{
      {"float64",
       {Dtype::F64,
        "0000000000000000000000000000f03f00000000000004c0"
        "0000000000000840000000000000e03f0000000000005840"}},
      {"float32", {Dtype::F32, "000000000000803f000020c0000040400000003f0000c042"}},
      {"complex64",
       {Dtype::C64,
        "00000000000000000000803f00000000000020c000000000"
        "00004040000000000000003f000000000000c04200000000"}},
      {"bfloat16", {Dtype::BF16, "0000803f20c04040003fc042"}},
      {"float16", {Dtype::F16, "0000003c00c1004200380056"}},
      {"float8_e4m3fn", {Dtype::F8_E4M3, "0038c244306c"}},
      {"float8_e5m2", {Dtype::F8_E5M2, "003cc1423856"}},
      {"uint64",
       {Dtype::U64,
        "000000000000000001000000000000000200000000000000"
        "030000000000000000000000000000006000000000000000"}},
      {"int64",
       {Dtype::I64,
        "000000000000000001000000000000000200000000000000"
        "030000000000000000000000000000006000000000000000"}},
      {"uint32", {Dtype::U32, "000000000100000002000000030000000000000060000000"}},
      {"int32", {Dtype::I32, "000000000100000002000000030000000000000060000000"}},
      {"uint16", {Dtype::U16, "000001000200030000006000"}},
      {"int16", {Dtype::I16, "000001000200030000006000"}},
      {"uint8", {Dtype::U8, "000102030060"}},
      {"int8", {Dtype::I8, "000102030060"}},
      {"bool", {Dtype::BOOL, "000101010001"}},
      {"a scalar", {Dtype::F32, "0000e840", {}}},
      {"nothing", {Dtype::F32, "", {0, 3}}},
      {"blöcke.0.\"é€𝄞\"\n", {Dtype::F32, "0000803f", {1}}}};
  const auto hex_of = [](std::span<const std::byte> bytes) {
    std::string hex;
    for (const std::byte byte : bytes) {
      hex += "0123456789abcdef"[std::to_integer<unsigned>(byte) >> 4U];
      hex += "0123456789abcdef"[std::to_integer<unsigned>(byte) & 15U];
    }
    return hex;
  };
  const SafetensorsFile library = SafetensorsFile::open(
      fs::path(HYDRASCOPE_SOURCE_DIR) / "tests/data/safetensors/library.safetensors");
  write_safetensors(path(), library.tensors(), library.metadata());
  const SafetensorsFile again = SafetensorsFile::open(path());
  for (const SafetensorsFile* file : {&library, &again}) {
    EXPECT_EQ(file->tensors().size(), expected.size());
    EXPECT_THAT(file->metadata(), ElementsAre(Pair("written_by", StartsWith("safetensors "))));
    for (const auto& [name, stored] : expected) {
      SCOPED_TRACE(name);
      const TensorView* tensor = file->find(name);
      ASSERT_NE(tensor, nullptr);
      EXPECT_EQ(tensor->dtype, stored.dtype);
      EXPECT_EQ(tensor->shape, stored.shape);
      EXPECT_EQ(hex_of(tensor->data), stored.hex);
    }
  }
}

TEST_F(SafetensorsWriterTest, WritesTheBytesOfItsTwinInPython) {
  const fs::path golden =
      fs::path(HYDRASCOPE_SOURCE_DIR) / "tests/data/goldens/small_plain.safetensors";
  const SafetensorsFile file = SafetensorsFile::open(golden);
  write_safetensors(path(), file.tensors(), file.metadata());
  EXPECT_EQ(read_bytes(path()), read_bytes(golden));
}

TEST_F(SafetensorsWriterTest, ReplacesTheFileItReadFrom) {
  write({view("a", Dtype::U8, {3}, "abc")});
  const SafetensorsFile file = SafetensorsFile::open(path());
  std::vector<TensorView> renamed = file.tensors();
  renamed[0].name = "b";
  write(renamed);
  EXPECT_EQ(text_of(file.find("a")->data), "abc");
  EXPECT_EQ(text_of(SafetensorsFile::open(path()).find("b")->data), "abc");
}

TEST_F(SafetensorsWriterTest, PermissionsFollowTheUmask) {
  const mode_t before = ::umask(027);
  write({});
  ::umask(before);
  EXPECT_EQ(fs::status(path()).permissions(), static_cast<fs::perms>(0640));
}

TEST_F(SafetensorsWriterTest, RefusesWhatItCouldNotRead) {
  const TensorView good = view("a", Dtype::F32, {1}, "aaaa");
  EXPECT_ERROR(write({good, good}), invalid_argument, "two tensors have the name \"a\"");
  EXPECT_ERROR(write({view("a", Dtype::F32, {2}, "aaaa")}), invalid_argument,
               "tensor \"a\": (2) of F32 takes 8 bytes, found 4", "a.safetensors");
  EXPECT_ERROR(write({view("a", Dtype::F32, {-1}, "")}), invalid_argument, "(-1)", "negative");
  EXPECT_ERROR(write({view("a", Dtype::U8, {1LL << 62, 4}, "")}), invalid_argument, "overflows");
  EXPECT_ERROR(write({view("a", Dtype::U8, std::vector<std::int64_t>(17, 1), "a")}),
               invalid_argument, "more than 16 dimensions");
  EXPECT_ERROR(write({view("__metadata__", Dtype::U8, {0}, "")}), invalid_argument, "reserved");
  EXPECT_ERROR(write({view("\xFF", Dtype::U8, {0}, "")}), invalid_argument, "not valid UTF-8");
  EXPECT_ERROR(write({}, {{"\xFF", ""}}), invalid_argument, "not valid UTF-8");
  EXPECT_ERROR(write({}, {{"a", "\xC3"}}), invalid_argument, "not valid UTF-8");
  EXPECT_ERROR(write({}, {{"a", std::string(kMaxHeaderBytes, 'x')}}), invalid_argument,
               "more than the format's limit");
  EXPECT_THAT(listing(), IsEmpty());
}

TEST_F(SafetensorsWriterTest, RefusesPlacesWhereNoFileCanBe) {
  EXPECT_ERROR(write_safetensors(folder_.path() / "absent" / "a.safetensors", {}, {}), unwritable,
               "cannot be created", "absent");
  EXPECT_ERROR(write_safetensors(folder_.path(), {}, {}), unwritable, "found a folder");
  EXPECT_ERROR(write_safetensors("/dev/null", {}, {}), unwritable, "a device", "/dev/null");
  EXPECT_THAT(listing(), IsEmpty());
}

/// Files end after `bytes`, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST_F(SafetensorsWriterTest, FailureLeavesTheOldFileAndNothingElse) {
  write({view("a", Dtype::U8, {3}, "abc")});
  const std::string before = read_bytes(path());
  {
    const FileSizeLimit limit(100);
    const std::string data(200, 'x');
    EXPECT_ERROR(write({view("a", Dtype::U8, {200}, data)}), unwritable, "cannot be written",
                 "a.safetensors");
  }
  EXPECT_EQ(read_bytes(path()), before);
  EXPECT_THAT(listing(), ElementsAre("a.safetensors"));
}

}  // namespace
}  // namespace hydrascope::checkpoint
