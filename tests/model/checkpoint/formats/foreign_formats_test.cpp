#include "model/checkpoint/formats/foreign_formats.h"

#include "model/checkpoint/formats/weight_file.h"
#include "tests/cases.h"
#include "tests/error_matchers.h"
#include "tests/model/checkpoint/formats/safetensors_bytes.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

namespace hydrascope::checkpoint {
namespace foreign_formats_test {

using namespace std::string_literals;

TEST(ForeignFormatsTest, AreRefusedByNameWhateverTheFileIsCalled) {
  const testing::TemporaryFolder folder;
  for (const testing::Json& row :
       testing::read_cases("model/checkpoint/formats/foreign_formats.jsonl")) {
    const std::string bytes = testing::bytes_in(row.at("bytes").get<std::string>());
    const std::string format = row.at("format");
    EXPECT_EQ(sniff_format(bytes_of(bytes)), format) << row;
    // Every cut may stand at the begin of a file.
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_FALSE(sniff_format(bytes_of(bytes.substr(0, size))).empty());
    for (const std::string name : {"x.pth", "x.bin", "x.onnx", "x.safetensors"}) {
      const testing::Json expected{{"error", {"unsupported_format", row.at("says"), name}}};
      testing::expect_case(expected, [&] { WeightFile::open(folder.write(name, bytes)); });
    }
  }
  EXPECT_ERROR(WeightFile::open(folder.write("x.pth", "")), empty, "the file is empty");
}

TEST(ForeignFormatsTest, OwnFormatsAreKnownByTheirFirstBytes) {
  EXPECT_EQ(sniff_format({}), "empty");
  EXPECT_EQ(sniff_format(bytes_of(file_of("{}"))), "safetensors");
  EXPECT_EQ(sniff_format(bytes_of("PK\x03\x04\0\0\x08\x08\0\0"s)), "torch_zip");
  for (const char* bytes : {"\x80\x02", "\x80\x03", "\x80\x04", "\x80\x05"})
    EXPECT_EQ(sniff_format(bytes_of(bytes)), "torch_legacy");
  EXPECT_EQ(sniff_format(bytes_of("\x80\x06")), "unknown");
  EXPECT_EQ(sniff_format(bytes_of(std::string(8, '\xFF') + "{")), "unknown");
}

}  // namespace foreign_formats_test
}  // namespace hydrascope::checkpoint
