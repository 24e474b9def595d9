#include "model/checkpoint/formats/safetensors.h"
#include "tests/cases.h"
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

TEST_F(SafetensorsWriterTest, ReadsAndWritesAgainWhatTheLibraryWrote) {
  const std::vector<testing::Json> expected =
      testing::read_cases("model/checkpoint/formats/library_tensors.jsonl");
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
    for (const testing::Json& row : expected) {
      SCOPED_TRACE(row);
      const TensorView* tensor = file->find(row.at("name").get<std::string>());
      ASSERT_NE(tensor, nullptr);
      EXPECT_EQ(name(tensor->dtype), row.at("dtype").get<std::string>());
      EXPECT_EQ(testing::Json(tensor->shape), row.at("shape"));
      EXPECT_EQ(hex_of(tensor->data), row.at("hex").get<std::string>());
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
