#include "model/checkpoint/formats/safetensors.h"

#include "model/checkpoint/formats/foreign_formats.h"
#include "model/checkpoint/formats/strict_json.h"
#include "tests/cases.h"
#include "tests/error_matchers.h"
#include "tests/model/checkpoint/formats/safetensors_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

namespace hydrascope::checkpoint {
namespace safetensors_test {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Json;

/// `"name":{"dtype":...}`, the three values as they are.
std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":" + dtype + ",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

SafetensorsIndex parse(const std::string& file) {
  return parse_safetensors(bytes_of(file), "a.safetensors");
}

// Legal files.

TEST(ParseSafetensorsTest, ReadsTensorsAndMetadata) {
  const std::string file = file_of(R"({"__metadata__":{"format":"pt","é":""},)" +
                                       entry("b", "\"F32\"", "[1,2]", "[0,8]") + "," +
                                       entry("a", "\"I16\"", "[3]", "[8,14]") + "}   ",
                                   "01234567abcdef");
  const SafetensorsIndex index = parse(file);
  EXPECT_EQ(index.metadata, (Metadata{{"format", "pt"}, {"é", ""}}));
  ASSERT_THAT(names(index.tensors), ElementsAre("b", "a"));
  EXPECT_EQ(index.tensors[0].dtype, Dtype::F32);
  EXPECT_THAT(index.tensors[0].shape, ElementsAre(1, 2));
  EXPECT_EQ(text_of(index.tensors[0].data), "01234567");
  EXPECT_EQ(index.tensors[1].dtype, Dtype::I16);
  EXPECT_EQ(text_of(index.tensors[1].data), "abcdef");
  EXPECT_EQ(static_cast<const void*>(index.tensors[1].data.data()), file.data() + file.size() - 6)
      << "the data must not be copied";
}

TEST(ParseSafetensorsTest, SortsByOffset) {
  const std::string header = "{" + entry("late", "\"U8\"", "[1]", "[2,3]") + "," +
                             entry("early", "\"U8\"", "[2]", "[0,2]") + "}";
  EXPECT_THAT(names(parse(file_of(header, "xyz")).tensors), ElementsAre("early", "late"));
}

TEST(ParseSafetensorsTest, TakesFilesWithoutTensors) {
  EXPECT_THAT(parse(file_of("{}")).tensors, IsEmpty());
  EXPECT_THAT(parse(file_of(R"({"__metadata__":{}}     )")).metadata, IsEmpty());
}

TEST(ParseSafetensorsTest, TakesScalarsAndEmptyTensors) {
  const std::string header = "{" + entry("filled", "\"F64\"", "[]", "[0,8]") + "," +
                             entry("first", "\"F32\"", "[0]", "[0,0]") + "," +
                             entry("last", "\"F32\"", "[5,0,7]", "[8,8]") + "}";
  const SafetensorsIndex index = parse(file_of(header, "01234567"));
  ASSERT_THAT(names(index.tensors), ElementsAre("first", "filled", "last"));
  EXPECT_THAT(index.tensors[1].shape, IsEmpty());
  EXPECT_EQ(index.tensors[1].data.size(), 8U);
  EXPECT_THAT(index.tensors[2].data, IsEmpty());
}

TEST(ParseSafetensorsTest, TakesUnalignedBuffers) {
  const std::string header = "{" + entry("byte", "\"U8\"", "[1]", "[0,1]") + "," +
                             entry("float", "\"F32\"", "[1]", "[1,5]") + "}";
  const std::string file = file_of(header, "x" + std::string("\x00\x00\x80\x3F", 4));
  float value = 0;
  const SafetensorsIndex index = parse(file);
  std::memcpy(&value, index.tensors[1].data.data(), sizeof value);
  EXPECT_EQ(value, 1.0F);
}

TEST(ParseSafetensorsTest, TakesTheLargestRank) {
  std::string shape = "[1";
  for (std::size_t i = 1; i < kMaxRank; ++i) shape += ",1";
  const auto index = parse(file_of("{" + entry("a", "\"U8\"", shape + "]", "[0,1]") + "}", "x"));
  EXPECT_EQ(index.tensors[0].shape.size(), kMaxRank);
}

TEST(ParseSafetensorsTest, TakesEveryDtype) {
  int count = 0;
  for (const auto& [name_in_file, size] : {std::pair{"BOOL", 1},
                                           {"U8", 1},
                                           {"I8", 1},
                                           {"I16", 2},
                                           {"U16", 2},
                                           {"F16", 2},
                                           {"BF16", 2},
                                           {"I32", 4},
                                           {"U32", 4},
                                           {"F32", 4},
                                           {"I64", 8},
                                           {"U64", 8},
                                           {"F64", 8},
                                           {"F8_E4M3", 1},
                                           {"F8_E5M2", 1},
                                           {"F8_E8M0", 1},
                                           {"C64", 8},
                                           {"F8_E4M3FNUZ", 1},
                                           {"F8_E5M2FNUZ", 1}}) {
    SCOPED_TRACE(name_in_file);
    const std::string offsets = "[0," + std::to_string(3 * size) + "]";
    const auto index =
        parse(file_of("{" + entry("a", "\""s + name_in_file + "\"", "[3]", offsets) + "}",
                      std::string(3 * static_cast<std::size_t>(size), 'x')));
    EXPECT_EQ(name(index.tensors[0].dtype), name_in_file);
    EXPECT_EQ(size_of(index.tensors[0].dtype), static_cast<std::size_t>(size));
    EXPECT_EQ(find_dtype(name_in_file), static_cast<Dtype>(count++));
  }
  EXPECT_EQ(find_dtype("F33"), std::nullopt);
}

TEST(ParseSafetensorsTest, HeaderLengthThatReadsAsAPickleIsALength) {
  // 640 = 80 02 in little-endian bytes, which is also how a pickle begins.
  std::string header = "{}";
  header.resize(640, ' ');
  EXPECT_EQ(sniff_format(bytes_of(file_of(header))), "safetensors");
  EXPECT_NO_THROW(parse(file_of(header)));
}

// Illegal files.

TEST(ParseSafetensorsTest, FilesThatBreakARuleAreRefused) {
  for (Json row : testing::read_cases("model/checkpoint/formats/broken_safetensors.jsonl")) {
    const auto text = [&](const char* key, const char* usual = "") {
      return testing::bytes_in(row.value(key, usual));
    };
    std::string header =
        "{" + entry("a", text("dtype", "\"F32\""), text("shape", "[2]"), text("offsets", "[0,8]"));
    if (row.contains("second")) header += "," + entry("b", "\"U8\"", "[4]", text("second"));
    header += "}";
    if (row.contains("header")) header = text("header");
    const std::string file =
        row.contains("file") ? text("file") : file_of(header, text("buffer", "01234567"));
    row["error"] = {"decode_failed", row["error"], "a.safetensors"};
    testing::expect_case(row, [&] { parse(file); });
  }
}

TEST(ParseSafetensorsTest, BoundsTheNumberOfKeys) {
  std::string header = R"({"__metadata__":{)";
  for (std::size_t i = 0; i <= kMaxJsonKeys; ++i) header += "\"" + std::to_string(i) + "\":\"\",";
  header.back() = '}';
  EXPECT_ERROR(parse(file_of(header + "}")), decode_failed, "more than 262144 keys in one object");
}

TEST(ParseSafetensorsTest, BoundsTheNumberOfValues) {
  std::string header = R"({"a":[)";
  for (std::size_t i = 0; i < kMaxJsonValues; ++i) header += "1,";
  header.back() = ']';
  EXPECT_ERROR(parse(file_of(header + "}")), decode_failed, "more than 8388608 values");
}

TEST(ParseSafetensorsTest, MessagesStayShortAndPrintable) {
  const std::string name = "\\u001b[2J" + std::string(100'000, 'x');
  try {
    parse(file_of("{\"" + name + "\":1}"));
    FAIL() << "must throw";
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_LT(what.size(), 300U);
    EXPECT_THAT(what, ::testing::HasSubstr("\\u001b[2J"));
    EXPECT_EQ(what.find('\x1b'), std::string::npos);
  }
}

TEST(StrictJsonTest, QuoteCutsBetweenCharacters) {
  std::string text(118, 'x');
  EXPECT_EQ(quote(text + "€€"), "\"" + text + "\"...");
}

// Files of another kind.

TEST(ParseSafetensorsTest, NamesDtypesBelowAByte) {
  for (const std::string dtype : {"F4", "F6_E2M3", "F6_E3M2"}) {
    EXPECT_ERROR(parse(file_of("{" + entry("a", "\"" + dtype + "\"", "[2]", "[0,1]") + "}", "x")),
                 unsupported_format, "tensor \"a\": its dtype", dtype.c_str(), "less than a byte");
  }
}

TEST(ParseSafetensorsTest, AFileThatEndsEarlySaysItsSizes) {
  const std::string whole = file_of("{" + entry("a", "\"U8\"", "[3]", "[0,3]") + "}", "xyz");
  EXPECT_ERROR(parse(whole.substr(0, whole.size() - 1)), decode_failed,
               "end outside the file, which was cut off: the buffer has 2 bytes");
  EXPECT_ERROR(parse(whole.substr(0, 10)), decode_failed, "the file was cut off: its header takes",
               "the file has 2 after the header's length");
}

TEST(ParseSafetensorsTest, SaysWhatAForeignFileIs) {
  EXPECT_ERROR(parse("version https://git-lfs.github.com/spec/v1\n"), unsupported_format,
               "Git LFS pointer", "git lfs pull", "a.safetensors");
  EXPECT_ERROR(parse("\n<!DOCTYPE html><html>"), unsupported_format, "HTML page",
               "download the file again");
  EXPECT_ERROR(parse("PK\x03\x04\0\0\x08\x08\0\0"s), unsupported_format, "zip archive",
               "`format_only`");
  EXPECT_ERROR(parse("\x80\x02\x8A\nl\xFC\x9C"
                     "F\xF9"),
               unsupported_format, "pickle", "`format_only`");
  EXPECT_ERROR(parse("GGUF\x03\0\0\0"s), unsupported_format, "GGUF", "as safetensors");
  EXPECT_ERROR(parse(""), empty, "the file is empty", "download");
}

}  // namespace safetensors_test
}  // namespace hydrascope::checkpoint
