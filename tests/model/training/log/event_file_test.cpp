#include "model/training/log/event_file.h"

#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

namespace hydrascope::model::training {
namespace {

using hydrascope::testing::read_bytes;
using hydrascope::testing::TemporaryFolder;

std::string hexadecimal(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += {kDigits[value >> 4], kDigits[value & 15]};
  }
  return text;
}

TEST(Crc32cTest, GivesThePublishedValues) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(crc32c(""), 0U);
}

// What TensorBoard 2.20's own messages and its RecordWriter gave.
TEST(EventFileTest, RecordsAreTensorboards) {
  EXPECT_EQ(hexadecimal(tfrecord(version_event(1700000000.25))),
            "1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe9");
  EXPECT_EQ(hexadecimal(tfrecord(
                scalars_event(1700000000.25, 300, {{"loss", 0.625}, {"eval/top1", 84.5}}))),
            "2d000000000000003c418afb0900001040fc54d94110ac022a1f0a0b0a046c6f7373150000203f0a100a09"
            "6576616c2f746f7031150000a942da307144");
}

TEST(EventFileTest, BeginsWithTheVersionAndIsNamedByTheTime) {
  const TemporaryFolder folder;
  const EventFile file(folder.path());
  EXPECT_TRUE(file.path().filename().native().starts_with("events.out.tfevents.1"));
  EXPECT_NE(read_bytes(file.path()).find("brain.Event:2"), std::string::npos);
}

TEST(EventFileTest, ResumesBehindTheLastKeptStep) {
  const TemporaryFolder folder;
  std::string begun, at_200;
  std::filesystem::path path;
  {
    EventFile file(folder.path());
    path = file.path();
    begun = read_bytes(path);
    file.add(100, {{"loss", 1}});
    file.add(200, {{"loss", 2}});
    at_200 = read_bytes(path);
    file.add(300, {{"loss", 3}});
  }
  const std::string whole = read_bytes(path);
  EXPECT_GT(whole.size(), at_200.size());
  folder.write(path.filename(), whole.substr(0, whole.size() - 1));  // cut short by a crash
  {
    EventFile file(folder.path(), 1000);
    EXPECT_EQ(file.path(), path);
    EXPECT_EQ(read_bytes(path), at_200);
  }
  { const EventFile file(folder.path(), 250); }
  EXPECT_EQ(read_bytes(path), at_200);
  { const EventFile file(folder.path()); }
  EXPECT_EQ(read_bytes(path), begun);
}

TEST(EventFileTest, NeedsAFolder) {
  const TemporaryFolder folder;
  EXPECT_ERROR(EventFile(folder.path() / "none"), failed, "none");
}

}  // namespace
}  // namespace hydrascope::model::training
