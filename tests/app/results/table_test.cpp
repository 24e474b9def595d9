#include "app/results/table.h"

#include "app/results/format.h"
#include "app/results/json.h"
#include "kernels/error.h"
#include "tests/error_matchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <vector>

namespace hydrascope::app {
namespace {

using ::testing::HasSubstr;

ResultTable two_rows() {
  ResultTable table({{"name", "name"}, {"images", "images"}, {"share", "share", 2}});
  table.add({std::string("a, b"), std::int64_t{10}, 0.25});
  table.add({std::string("c"), std::int64_t{7}, std::numeric_limits<double>::quiet_NaN()});
  return table;
}

std::string table_in(Format format) {
  std::ostringstream out;
  two_rows().write(format, out);
  return out.str();
}

TEST(ResultTableTest, EveryFormat) {
  EXPECT_EQ(table_in(Format::text),
            "name  images  share\n"
            "a, b      10   0.25\n"
            "c          7      -\n");
  EXPECT_EQ(table_in(Format::csv), "name,images,share\n\"a, b\",10,0.25\nc,7,\n");
  EXPECT_EQ(
      table_in(Format::md),
      "| name | images | share |\n| --- | --- | --- |\n| a, b | 10 | 0.25 |\n| c | 7 | - |\n");
  EXPECT_EQ(table_in(Format::json),
            "[{\"name\":\"a, b\",\"images\":10,\"share\":0.25},"
            "{\"name\":\"c\",\"images\":7,\"share\":null}]\n");
  EXPECT_EQ(table_in(Format::jsonl),
            "{\"name\":\"a, b\",\"images\":10,\"share\":0.25}\n"
            "{\"name\":\"c\",\"images\":7,\"share\":null}\n");
}

TEST(ResultTableTest, ARowHasACellAColumn) {
  ResultTable table({{"a", "a"}, {"b", "b"}});
  EXPECT_ERROR(table.add({std::int64_t{1}}), internal, "2 cells");
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(json_text(table.json()), "[]");
}

TEST(CellText, HoldsNoJsonButOfWhatIsNested) {
  const auto text = [](const char* json) { return cell_text(OrderedJson::parse(json)); };
  EXPECT_EQ(text("[3, 64, 64]"), "3x64x64");
  EXPECT_EQ(text(R"(["hh", "hog"])"), "hh, hog");
  EXPECT_EQ(text(R"({"hydra.scale":"linear","taps":3})"), "hydra.scale=linear, taps=3");
  EXPECT_EQ(text(R"([[1],[2]])"), "[[1],[2]]");
  EXPECT_EQ(text("[]"), "");
  EXPECT_EQ(text("null"), "");
  EXPECT_EQ(text("false"), "false");
}

TEST(RecordStreamTest, MayBeginWithFacts) {
  const auto written = [](Format format, int records) {
    std::ostringstream out;
    RecordStream stream(format, out, "a size", "", {{"cpu", "X|Y"}});
    for (int i = 0; i < records; ++i)
      stream.write({{"a", i}, {"size", {2, 3}}}, "row " + std::to_string(i) + "\n");
    stream.finish();
    return out.str();
  };
  EXPECT_EQ(written(Format::text, 1), "cpu: X|Y\nrow 0\n");
  EXPECT_EQ(written(Format::json, 2),
            "{\"schema\":1,\"header\":{\"cpu\":\"X|Y\"},\"rows\":[\n"
            "{\"a\":0,\"size\":[2,3]},\n{\"a\":1,\"size\":[2,3]}\n]}\n");
  EXPECT_EQ(written(Format::json, 0), "{\"schema\":1,\"header\":{\"cpu\":\"X|Y\"},\"rows\":[]}\n");
  EXPECT_EQ(written(Format::jsonl, 1),
            "{\"schema\":1,\"header\":{\"cpu\":\"X|Y\"}}\n{\"a\":0,\"size\":[2,3]}\n");
  EXPECT_EQ(written(Format::csv, 1), "a,size\n0,2x3\n");
}

TEST(JsonText, Strings) {
  EXPECT_EQ(json_text("a\"b\\c\n\x01"), R"("a\"b\\c\n\u0001")");
  EXPECT_EQ(json_text("\xC3\xA9"), "\"\xC3\xA9\"");
  EXPECT_EQ(json_text("\xFFx"), "\"\xEF\xBF\xBDx\"");
}

TEST(JsonText, NumbersHaveNeitherNoiseNorExponent) {
  EXPECT_EQ(significant(double{0.9312F}, 6), "0.9312");
  EXPECT_EQ(significant(0.99999999, 6), "1.0");
  EXPECT_EQ(significant(1.0, 6), "1.0");
  EXPECT_EQ(significant(0.0, 6), "0.0");
  EXPECT_EQ(significant(1.23456789e-5, 6), "0.0000123457");
  EXPECT_EQ(significant(4e-9, 6), "0.000000004");
  EXPECT_EQ(significant(1e-30, 6), "0.0");
  EXPECT_EQ(significant(1234567.891, 6), "1234567.891");
  EXPECT_EQ(significant(1e15, 6), "1000000000000000.0");
  EXPECT_EQ(significant(-84.9, 6), "-84.9");
  EXPECT_EQ(decimal(11.84000015258789, 4), "11.84");
  EXPECT_EQ(decimal(-0.00001, 4), "0.0");
  EXPECT_EQ(decimal(12, 4), "12.0");
  EXPECT_EQ(decimal(100, 4), "100.0");
  EXPECT_EQ(fixed(0.125, 1), "0.1");
  EXPECT_EQ(fixed(2.5, 0), "2");
  EXPECT_EQ(fixed(std::numeric_limits<double>::max(), 30).size(), 309 + 1 + 30);
  EXPECT_EQ(json_text(rounded(decimal(std::nan(""), 4))), "null");
  EXPECT_EQ(json_text(rounded(-std::numeric_limits<double>::infinity())), "null");
  EXPECT_EQ(json_text(rounded("-1.5")), "-1.5");
  EXPECT_EQ(json_text(rounded(1.23456789e-5)), "0.0000123457");
  EXPECT_EQ(json_text(rounded(double{0.9312F})), "0.9312");
  EXPECT_EQ(json_text(rounded(1e15)), "1000000000000000.0");
}

TEST(ChooseFormat, WordThenExtensionThenText) {
  EXPECT_EQ(choose_format("csv", "out.json"), Format::csv);
  EXPECT_EQ(choose_format("text", "out.json"), Format::text);
  EXPECT_EQ(choose_format("", "out.json"), Format::json);
  EXPECT_EQ(choose_format("", "a.b/out.JSONL"), Format::jsonl);
  EXPECT_EQ(choose_format("", "out.csv"), Format::csv);
  for (const char* output : {"", "-", "out", "out.txt", "folder/", "out.", ".json", "csv"}) {
    EXPECT_EQ(choose_format("", output), Format::text) << output;
  }
  EXPECT_EQ(choose_format("", "out.md", report_formats()), Format::md);
  EXPECT_EQ(choose_format("", "out.html", report_formats()), Format::html);
  for (const char* output : {"out.html", "out.md", "out.tsv", "out.jpg"})
    EXPECT_ERROR(choose_format("", output), invalid_argument, "no form of these results", output);
  EXPECT_ERROR(choose_format("html", ""), invalid_argument, "'html'");
  try {
    choose_format("xml", "");
    FAIL() << "xml is no format";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.hint(), HasSubstr("jsonl"));
  }
}

TEST(CheckExtension, NamesWhatItMayBe) {
  EXPECT_NO_THROW(check_extension("a.HTML", "--html", {".svg", ".html"}));
  EXPECT_ERROR(check_extension("a.png", "--html", {".svg", ".html"}), invalid_argument,
               ".svg or .html", "--html a.png");
}

TEST(DelimitedRow, IsQuotedAsItsFormatWantsIt) {
  const std::vector<std::string> fields{"", " a ", "b\r", "c\td", "e\"|"};
  EXPECT_EQ(delimited_row(fields, Format::csv), ", a ,\"b\r\",c\td,\"e\"\"|\"\n");
  EXPECT_EQ(delimited_row(fields, Format::md), "|  |  a  | b\\r | c\\td | e\"\\| |\n");
  EXPECT_EQ(header_row(std::vector<std::string>{"a", "b"}, Format::md),
            "| a | b |\n| --- | --- |\n");
}

}  // namespace
}  // namespace hydrascope::app
