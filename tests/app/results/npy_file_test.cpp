#include "app/results/npy_file.h"

#include "kernels/error.h"
#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace hydrascope::app {
namespace npy_file_test {

using hydrascope::testing::read_bytes;
using hydrascope::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A file taken apart as numpy.lib.format does it.
struct NpyFile {
  std::string header;
  std::vector<float> values;
};

NpyFile parse(const std::filesystem::path& file) {
  const std::string bytes = read_bytes(file);
  EXPECT_GE(bytes.size(), 10);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const std::size_t length = static_cast<unsigned char>(bytes[8]) |
                             static_cast<std::size_t>(static_cast<unsigned char>(bytes[9])) << 8;
  const std::size_t begin = 10 + length;
  EXPECT_EQ(begin % 64, 0) << "NumPy aligns the data";
  EXPECT_LE(begin, bytes.size());
  EXPECT_EQ(bytes[begin - 1], '\n');
  EXPECT_EQ((bytes.size() - begin) % sizeof(float), 0);
  NpyFile parsed;
  parsed.header = bytes.substr(10, length - 1);
  parsed.header.resize(parsed.header.find_last_not_of(' ') + 1);
  parsed.values.resize((bytes.size() - begin) / sizeof(float));
  if (!parsed.values.empty()) {
    std::memcpy(parsed.values.data(), bytes.data() + begin, bytes.size() - begin);
  }
  return parsed;
}

std::string header_with(const std::string& shape) {
  return "{'fortran_order': False, 'descr': '<f4', 'shape': " + shape + ", }";
}

class NpyWriterTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / "out.npy";
};

constexpr std::array<std::int64_t, 1> kThree{3};

TEST_F(NpyWriterTest, RowsOfOneShape) {
  NpyWriter writer(file_);
  writer.append(std::array{1.0F, 2.0F, 3.0F}, kThree);
  writer.append(std::array{4.0F, 5.0F, 6.0F}, kThree);
  writer.close();
  const NpyFile parsed = parse(file_);
  EXPECT_EQ(parsed.header, header_with("(2, 3)"));
  EXPECT_THAT(parsed.values, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(NpyWriterTest, ManyDimensionsAndNone) {
  {
    NpyWriter writer(file_);
    writer.append(std::vector<float>(12, 7), std::array<std::int64_t, 3>{3, 2, 2});
    writer.close();
    EXPECT_EQ(parse(file_).header, header_with("(1, 3, 2, 2)"));
  }
  NpyWriter writer(file_);
  writer.append(std::array{1.5F}, {});
  writer.append(std::array{2.5F}, {});
  writer.close();
  EXPECT_EQ(parse(file_).header, header_with("(2,)"));
  EXPECT_THAT(parse(file_).values, ElementsAre(1.5F, 2.5F));
}

TEST_F(NpyWriterTest, NanRowsBeforeBetweenAndAfter) {
  NpyWriter writer(file_);
  writer.append_nan();
  writer.append_nan();
  writer.append(std::array{1.0F, 2.0F, 3.0F}, kThree);
  writer.append_nan();
  writer.close();
  const NpyFile parsed = parse(file_);
  EXPECT_EQ(parsed.header, header_with("(4, 3)"));
  ASSERT_EQ(parsed.values.size(), 12);
  for (const std::size_t index : {0U, 1U, 2U, 3U, 4U, 5U, 9U, 10U, 11U}) {
    EXPECT_TRUE(std::isnan(parsed.values[index])) << index;
  }
  EXPECT_EQ(parsed.values[6], 1);
  EXPECT_EQ(parsed.values[8], 3);
}

TEST_F(NpyWriterTest, NanRowsLargerThanTheBuffer) {
  constexpr std::int64_t kSize = 5000;
  NpyWriter writer(file_);
  writer.append_nan();
  writer.append(std::vector<float>(kSize, 1), std::array{kSize});
  writer.close();
  const NpyFile parsed = parse(file_);
  ASSERT_EQ(parsed.values.size(), 2 * kSize);
  EXPECT_TRUE(std::isnan(parsed.values[kSize - 1]));
  EXPECT_EQ(parsed.values[kSize], 1);
}

TEST_F(NpyWriterTest, WithoutAnyShape) {
  {
    NpyWriter writer(file_);
    writer.append_nan();
    writer.close();
    EXPECT_EQ(parse(file_).header, header_with("(1, 0)"));
  }
  NpyWriter writer(file_);
  writer.close();
  writer.close();
  EXPECT_EQ(parse(file_).header, header_with("(0, 0)"));
}

TEST_F(NpyWriterTest, AnotherShapeIsRefusedAndNamed) {
  NpyWriter writer(file_);
  writer.append(std::array{1.0F, 2.0F, 3.0F}, kThree);
  try {
    writer.append(std::array{1.0F, 2.0F, 3.0F}, std::array<std::int64_t, 2>{1, 3});
    FAIL() << "(1, 3) is not (3,)";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("(1, 3)"));
    EXPECT_THAT(error.what(), HasSubstr("(3,)"));
  }
  writer.append(std::array{4.0F, 5.0F, 6.0F}, kThree);
  writer.close();
  EXPECT_EQ(parse(file_).header, header_with("(2, 3)"));
}

TEST_F(NpyWriterTest, ShapesThatDoNotFitTheValues) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  NpyWriter writer(file_);
  const std::array<float, 4> row{};
  const std::vector<std::vector<std::int64_t>> shapes{{3},
                                                      {5},
                                                      {-4},
                                                      {-2, -2},
                                                      {kHuge, kHuge},
                                                      {kHuge, 2},
                                                      {1LL << 32, 1LL << 32},
                                                      std::vector<std::int64_t>(32, 1)};
  for (const auto& shape : shapes) EXPECT_THROW(writer.append(row, shape), Error);
  EXPECT_THROW(writer.append(row, {}), Error);
  EXPECT_NO_THROW(writer.append(row, std::array<std::int64_t, 2>{2, 2}));
}

TEST_F(NpyWriterTest, TheFileHasItsNameOnceItIsWholeAndTheDestructorCloses) {
  folder_.write(file_.filename().string(), "the run before");
  {
    NpyWriter writer(file_);
    const std::vector<float> row(100'000, 1);
    writer.append(row, std::array<std::int64_t, 1>{100'000});
    EXPECT_EQ(testing::read_bytes(file_), "the run before");
  }
  EXPECT_EQ(parse(file_).header, header_with("(1, 100000)"));
}

TEST_F(NpyWriterTest, DiskErrors) {
  EXPECT_ERROR(NpyWriter(folder_.path() / "no" / "out.npy"), unwritable, "out.npy");
  EXPECT_ERROR(NpyWriter("/dev/full"), unwritable, "/dev/full", "a device");
}

TEST_F(NpyWriterTest, RowsAfterCloseAreAnError) {
  NpyWriter writer(file_);
  writer.close();
  EXPECT_THROW(writer.append_nan(), Error);
  EXPECT_THROW(writer.append(std::array{1.0F, 2.0F, 3.0F}, kThree), Error);
}

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

}  // namespace npy_file_test
}  // namespace hydrascope::app
