#include "model/checkpoint/formats/safetensors.h"

#include "model/checkpoint/formats/foreign_formats.h"
#include "model/checkpoint/formats/strict_json.h"
#include "tests/error_matchers.h"
#include "tests/model/checkpoint/formats/safetensors_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <ostream>

namespace hydrascope::checkpoint {
namespace safetensors_test {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

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

// Illegal files: each breaks one rule.

struct Broken {
  const char* rule;
  std::string file;
  const char* message;
};
std::ostream& operator<<(std::ostream& out, const Broken& broken) { return out << broken.rule; }

/// "dtype is no string" -> "dtype_is_no_string".
std::string rule_name(const ::testing::TestParamInfo<Broken>& info) {
  std::string name = info.param.rule;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

class BrokenSafetensorsTest : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenSafetensorsTest, IsRefused) {
  EXPECT_ERROR(parse(GetParam().file), decode_failed, GetParam().message, "a.safetensors");
}

/// A file whose only tensor "a" has one field out of order; the buffer is right for the right
/// value.
std::string with_dtype(const std::string& dtype) {
  return file_of("{" + entry("a", dtype, "[2]", "[0,8]") + "}", "01234567");
}
std::string with_shape(const std::string& shape) {
  return file_of("{" + entry("a", "\"F32\"", shape, "[0,8]") + "}", "01234567");
}
std::string with_offsets(const std::string& offsets) {
  return file_of("{" + entry("a", "\"F32\"", "[2]", offsets) + "}", "01234567");
}
std::string with_fields(const std::string& fields) {
  return file_of("{\"a\":{" + fields + "}}", "01234567");
}
/// Two tensors of four bytes in a buffer of eight.
std::string with_two(const std::string& first, const std::string& second,
                     const std::string& buffer = "01234567") {
  return file_of(
      "{" + entry("a", "\"U8\"", "[4]", first) + "," + entry("b", "\"U8\"", "[4]", second) + "}",
      buffer);
}

INSTANTIATE_TEST_SUITE_P(
    Length, BrokenSafetensorsTest,
    ::testing::Values(
        Broken{"shorter than a length", "\x02\0\0\0\0\0\0"s, "at least 8 bytes"},
        Broken{"length above the limit", length(100'000'001) + "{}", "limit of 100000000"},
        Broken{"length of all ones", std::string(8, '\xFF') + "{}", "18446744073709551615"},
        Broken{"length above the file", length(3) + "{}", "header takes 3 bytes, the file has 2"},
        Broken{"nothing after the length", length(0), "begins with nothing, expected '{'"},
        Broken{"does not begin with a brace", file_of(" {}"), "begins with \" \", expected '{'"},
        Broken{"begins as an array", file_of("[]"), "begins with \"[\", expected '{'"},
        Broken{"padded with a line end", file_of("{}\n"), "ends with \"\\n\", expected '}'"}),
    rule_name);

INSTANTIATE_TEST_SUITE_P(
    Json, BrokenSafetensorsTest,
    ::testing::Values(
        Broken{"stray byte", file_of("{\"\xFF\":1}"), "not valid UTF-8 at byte 2"},
        Broken{"overlong form", file_of("{\"\xC0\xAF\":1}"), "not valid UTF-8 at byte 2"},
        Broken{"surrogate", file_of("{\"a\xED\xA0\x80\":1}"), "not valid UTF-8 at byte 3"},
        Broken{"cut character", file_of("{\"\xE2\x82\":1}"), "not valid UTF-8 at byte 2"},
        Broken{"beyond Unicode", file_of("{\"\xF4\x90\x80\x80\":1}"), "not valid UTF-8 at byte 2"},
        Broken{"bad UTF-8 outside strings", file_of("{}\x80"), "not valid UTF-8 at byte 2"},
        Broken{"unfinished", file_of("{"), "not valid JSON: unexpected at byte 1: its end"},
        Broken{"trailing comma", file_of("{\"__metadata__\":{},}"), "not valid JSON"},
        Broken{"two values", file_of("{}{}"), "not valid JSON: unexpected at byte 2"},
        Broken{"comment", file_of("{/**/}"), "not valid JSON"},
        Broken{"escaped half of a surrogate", file_of(R"({"__metadata__":{"\ud800":""}})"),
               "not valid JSON"},
        Broken{"zero byte that hides text", file_of("{}\0{}"s), "a zero byte at byte 2"}),
    rule_name);

INSTANTIATE_TEST_SUITE_P(
    Metadata, BrokenSafetensorsTest,
    ::testing::Values(Broken{"no object", file_of(R"({"__metadata__":[]})"),
                             "__metadata__: expected an object, found an array"},
                      Broken{"number", file_of(R"({"__metadata__":{"epoch":3}})"),
                             "__metadata__ \"epoch\": expected a string, found the number 3"},
                      Broken{"null", file_of(R"({"__metadata__":{"epoch":null}})"),
                             "expected a string, found null"},
                      Broken{"nested", file_of(R"({"__metadata__":{"a":{"b":"c"}}})"),
                             "__metadata__ \"a\": expected a string, found an object"},
                      Broken{"duplicate entry", file_of(R"({"__metadata__":{"a":"1","a":"1"}})"),
                             "duplicate key \"a\" in \"__metadata__\""},
                      Broken{"escaped duplicate",
                             file_of(R"({"__metadata__":{"a":"1","\u0061":"1"}})"),
                             "duplicate key \"a\" in \"__metadata__\""},
                      Broken{"twice", file_of(R"({"__metadata__":{},"__metadata__":{}})"),
                             "duplicate key \"__metadata__\""}),
    rule_name);

INSTANTIATE_TEST_SUITE_P(
    Entry, BrokenSafetensorsTest,
    ::testing::Values(
        Broken{"no object", file_of(R"({"a":7})"),
               "tensor \"a\": expected an object, found the number 7"},
        Broken{"same tensor twice",
               file_of("{" + entry("a", "\"U8\"", "[1]", "[0,1]") + "," +
                           entry("a", "\"U8\"", "[1]", "[1,2]") + "}",
                       "xy"),
               "duplicate key \"a\""},
        Broken{"same field twice",
               with_fields(R"("dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8])"),
               "duplicate key \"dtype\" in \"a\""},
        Broken{"unknown field",
               with_fields(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"strides":[1])"),
               "tensor \"a\": unknown field \"strides\""},
        Broken{"no dtype", with_fields(R"("shape":[2],"data_offsets":[0,8])"),
               "tensor \"a\": dtype is missing"},
        Broken{"no shape", with_fields(R"("dtype":"F32","data_offsets":[0,8])"),
               "tensor \"a\": shape is missing"},
        Broken{"no data_offsets", with_fields(R"("dtype":"F32","shape":[2])"),
               "tensor \"a\": data_offsets is missing"},
        Broken{"missing field after a whole tensor",
               file_of("{" + entry("a", "\"U8\"", "[0]", "[0,0]") + R"(,"b":{}})"),
               "tensor \"b\": dtype is missing"},
        Broken{"dtype is no string", with_dtype("32"),
               "dtype: expected a string, found the number"},
        Broken{"dtype unknown", with_dtype("\"F33\""), "tensor \"a\": unknown dtype \"F33\""},
        Broken{"dtype in small letters", with_dtype("\"f32\""), "unknown dtype \"f32\""}),
    rule_name);

INSTANTIATE_TEST_SUITE_P(
    Shape, BrokenSafetensorsTest,
    ::testing::Values(
        Broken{"no array", with_shape("2"), "shape: expected an array, found the number 2"},
        Broken{"negative", with_shape("[-2]"), "non-negative integers, found the number -2"},
        Broken{"negative zero", with_shape("[-0]"), "non-negative integers, found the number -0"},
        Broken{"fraction", with_shape("[2.0]"), "non-negative integers, found the number 2.0"},
        Broken{"exponent", with_shape("[2e0]"), "non-negative integers, found the number 2.0"},
        Broken{"string", with_shape("[\"2\"]"), "non-negative integers, found the string \"2\""},
        Broken{"nested", with_shape("[[2]]"), "non-negative integers, found an array"},
        Broken{"object inside", with_shape("[{}]"), "non-negative integers, found an object"},
        Broken{"true", with_shape("[true]"), "non-negative integers, found true or false"},
        Broken{"above 64 bits", with_shape("[18446744073709551616]"),
               "non-negative integers, found the number 1.8446744073709552e+19"},
        Broken{"above 63 bits", with_shape("[9223372036854775808]"), "overflows 63 bits"},
        Broken{"rank above the limit", with_shape("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]"),
               "shape: more than 16 dimensions"},
        Broken{"product overflows", with_shape("[4294967296,4294967296]"),
               "the size of (4294967296, 4294967296) of F32 overflows"},
        Broken{"product wraps to the right size", with_shape("[4611686018427387906]"),
               "the size of (4611686018427387906) of F32 overflows"},
        Broken{"overflow behind a zero", with_shape("[0,4294967296,4294967296]"), "overflows"},
        Broken{"too small", with_shape("[1]"),
               "tensor \"a\": (1) of F32 takes 4 bytes, data_offsets [0, 8) hold 8"},
        Broken{"too large", with_shape("[3]"), "(3) of F32 takes 12 bytes"}),
    rule_name);

INSTANTIATE_TEST_SUITE_P(
    Offsets, BrokenSafetensorsTest,
    ::testing::Values(
        Broken{"no array", with_offsets("8"), "data_offsets: expected an array, found the number"},
        Broken{"none", with_offsets("[]"), "data_offsets: expected 2 integers, found 0"},
        Broken{"one", with_offsets("[0]"), "data_offsets: expected 2 integers, found 1"},
        Broken{"three", with_offsets("[0,8,8]"), "data_offsets: expected 2 integers, found more"},
        Broken{"negative", with_offsets("[-8,0]"), "data_offsets: expected non-negative integers"},
        Broken{"fraction", with_offsets("[0,8.0]"), "data_offsets: expected non-negative integers"},
        Broken{"backwards", with_offsets("[8,0]"), "data_offsets [8, 0) end before they begin"},
        Broken{"first does not begin at zero",
               file_of("{" + entry("a", "\"U8\"", "[4]", "[4,8]") + "}", "01234567"),
               "data_offsets [4, 8) leave a hole: expected to begin at 0"},
        Broken{"hole", with_two("[0,4]", "[5,9]", "012345678"),
               "tensor \"b\": data_offsets [5, 9) leave a hole: expected to begin at 4"},
        Broken{"overlap", with_two("[0,4]", "[3,7]", "0123456"),
               "tensor \"b\": data_offsets [3, 7) overlap the tensor before"},
        Broken{"same place", with_two("[0,4]", "[0,4]", "0123"), "overlap the tensor before"},
        Broken{"outside the file", with_two("[0,4]", "[4,8]", "0123456"),
               "tensor \"b\": data_offsets [4, 8) end outside the file, which was cut off: the "
               "buffer has 7 bytes"},
        Broken{"bytes after the last tensor", with_two("[0,4]", "[4,8]", "012345678"),
               "1 bytes after the last tensor"},
        Broken{"bytes without tensors", file_of("{}", "x"), "1 bytes after the last tensor"}),
    rule_name);

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
