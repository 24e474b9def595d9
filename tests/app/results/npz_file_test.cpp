#include "app/results/npy_file.h"
#include "model/checkpoint/formats/torch/zip_archive.h"
#include "model/image/decoders/crc32.h"
#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace hydrascope::app {
namespace npz_file_test {

using hydrascope::testing::read_bytes;
using hydrascope::testing::TemporaryFolder;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(NpyHeaderTest, IsWhatTheWriterOfRowsWrites) {
  const std::string header = npy_header(std::array<std::int64_t, 2>{3, 4});
  EXPECT_EQ(header.size() % 64, 0U);
  EXPECT_EQ(header.back(), '\n');
  EXPECT_NE(header.find("'shape': (3, 4), }"), std::string::npos) << header;
  EXPECT_NE(npy_header({}).find("'shape': (), }"), std::string::npos);
  EXPECT_NE(npy_header(std::array<std::int64_t, 1>{5}).find("'shape': (5,), }"), std::string::npos);
}

class NpzWriterTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / "maps.npz";
};

TEST_F(NpzWriterTest, EntriesAreWhereTheDirectoryOfTheArchiveSays) {
  const std::vector<float> first{1, 2, 3, 4, 5, 6};
  const std::vector<float> second{-1.5F};
  NpzWriter writer(file_);
  writer.add("hydra.layer11", first, std::array<std::int64_t, 2>{2, 3});
  writer.add("otter \xc3\xa9", second, std::array<std::int64_t, 1>{1});
  writer.close();

  const std::string bytes = read_bytes(file_);
  const checkpoint::ZipArchive archive(bytes_of(bytes), "maps.npz");
  EXPECT_EQ(archive.entries().size(), 2U);
  const std::span<const std::byte> content = archive.content("hydra.layer11.npy");
  const std::string header = npy_header(std::array<std::int64_t, 2>{2, 3});
  ASSERT_EQ(content.size(), header.size() + first.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(content.data(), header.data(), header.size()), 0);
  EXPECT_EQ(std::memcmp(content.data() + header.size(), first.data(), first.size() * 4), 0);
  EXPECT_EQ(archive.content("otter \xc3\xa9.npy").back(), std::byte{0xBF}) << "of -1.5";
}

TEST_F(NpzWriterTest, LayoutByteByByte) {
  const std::vector<float> values{0.5F};
  const std::array<std::int64_t, 1> shape{1};
  NpzWriter writer(file_);
  writer.add("a", values, shape);
  writer.close();
  const std::string bytes = read_bytes(file_);
  const std::string header = npy_header(shape);
  const auto u32 = [&](std::size_t at) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  };
  constexpr std::size_t kLocalHeader = 30 + 5;  // and "a.npy"
  ASSERT_EQ(bytes.size(), kLocalHeader + header.size() + 4 + 46 + 5 + 22);
  EXPECT_EQ(u32(0), 0x04034B50U);
  EXPECT_EQ(u32(18), header.size() + 4) << "compressed size";
  EXPECT_EQ(u32(22), header.size() + 4);
  EXPECT_EQ(bytes.substr(30, 5), "a.npy");
  const std::string entry = bytes.substr(kLocalHeader, header.size() + 4);
  EXPECT_EQ(entry.substr(0, header.size()), header);
  EXPECT_EQ(u32(14), image::crc32(bytes_of(entry)));
  const std::size_t directory = kLocalHeader + header.size() + 4;
  EXPECT_EQ(u32(directory), 0x02014B50U);
  EXPECT_EQ(u32(directory + 42), 0U) << "offset of the entry";
  EXPECT_EQ(u32(bytes.size() - 22), 0x06054B50U);
  EXPECT_EQ(u32(bytes.size() - 6), directory);
}

TEST_F(NpzWriterTest, TheSameArraysGiveTheSameBytes) {
  const std::vector<float> values{1, 2};
  const auto write = [&](const std::filesystem::path& file) {
    NpzWriter writer(file);
    writer.add("a", values, std::array<std::int64_t, 1>{2});
    writer.close();
    return read_bytes(file);
  };
  EXPECT_EQ(write(file_), write(folder_.path() / "again.npz"));
}

TEST_F(NpzWriterTest, WithoutCloseWhatWasThereStays) {
  folder_.write("maps.npz", "the run before");
  const std::vector<float> values{1, 2};
  {
    NpzWriter writer(file_);
    writer.add("a", values, std::array<std::int64_t, 1>{2});
  }
  EXPECT_EQ(read_bytes(file_), "the run before");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(NpzWriterTest, Refusals) {
  const std::vector<float> values{1, 2};
  EXPECT_ERROR(NpzWriter("/nonexistent/x.npz"), unwritable, "/nonexistent/x.npz");
  NpzWriter writer(file_);
  writer.add("a", values, std::array<std::int64_t, 1>{2});
  EXPECT_ERROR(writer.add("a", values, (std::array<std::int64_t, 1>{2})), invalid_argument, ": a");
  EXPECT_ERROR(writer.add("b", values, (std::array<std::int64_t, 1>{3})), invalid_argument, "(3,)",
               "2 values");
}

}  // namespace npz_file_test
}  // namespace hydrascope::app
