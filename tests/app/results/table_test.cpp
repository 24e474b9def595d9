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
using ::testing::StartsWith;

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
  EXPECT_EQ(table_in(Format::tsv), "name\timages\tshare\na, b\t10\t0.25\nc\t7\t\n");
  EXPECT_EQ(table_in(Format::md),
            "| name | images | share |\n| --- | --- | --- |\n| a, b | 10 | 0.25 |\n| c | 7 |  |\n");
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

Summary evaluation() {
  Summary report;
  report.add("top1", 84.8999999999);
  report.add("images", 500);
  report.add("model", "deit_tiny");
  report.add("native", false);
  report.add_size("img_size", 160, 224);
  report.add("crop_pct", 0.875, 3);
  report.add("device", std::string_view("a,b"));
  report.add("extra", OrderedJson::parse(R"({"a":[1]})"));
  return report;
}

std::string written(const Summary& report, Format format) {
  std::ostringstream out;
  report.write(format, out);
  return out.str();
}

TEST(Summary, JsonKeepsTheOrder) {
  EXPECT_EQ(written(evaluation(), Format::jsonl),
            R"({"schema":1,"top1":84.9,"images":500,"model":"deit_tiny","native":false,)"
            R"("img_size":[160,224],"crop_pct":0.875,"device":"a,b","extra":{"a":[1]}})"
            "\n");
  const std::string json = written(evaluation(), Format::json);
  EXPECT_THAT(json, StartsWith("{\n  \"schema\":1,\n  \"top1\":84.9,\n"));
  EXPECT_EQ(OrderedJson::parse(json), OrderedJson::parse(written(evaluation(), Format::jsonl)));
}

TEST(Summary, PairsForPeople) {
  const auto pairs = evaluation().texts();
  ASSERT_EQ(pairs.size(), 8U);
  EXPECT_EQ(pairs[0], (std::pair<std::string, std::string>("top1", "84.90")));
  EXPECT_EQ(pairs[4], (std::pair<std::string, std::string>("img size", "160x224 (HxW)")));
}

TEST(Summary, TextIsAligned) {
  EXPECT_EQ(written(evaluation(), Format::text),
            "top1      84.90\n"
            "images    500\n"
            "model     deit_tiny\n"
            "native    no\n"
            "img size  160x224 (HxW)\n"
            "crop pct  0.875\n"
            "device    a,b\n"
            "extra     {\"a\":[1]}\n");
}

TEST(Summary, TablesHaveAHeaderAndARow) {
  EXPECT_EQ(written(evaluation(), Format::csv),
            "top1,images,model,native,img_size,crop_pct,device,extra\n"
            "84.9,500,deit_tiny,false,\"[160,224]\",0.875,\"a,b\",\"{\"\"a\"\":[1]}\"\n");
  EXPECT_THAT(written(evaluation(), Format::tsv), HasSubstr("deit_tiny\tfalse\t[160,224]"));
}

TEST(Summary, OddValues) {
  Summary report;
  report.add("speed", std::nan(""));
  report.add("name", "a\nb");
  report.add("options", OrderedJson::parse(R"({"softmax.logit_scale":"none","taps":3})"));
  EXPECT_EQ(written(report, Format::jsonl), R"({"schema":1,"speed":null,"name":"a\nb",)"
                                            R"("options":{"softmax.logit_scale":"none","taps":3}})"
                                            "\n");
  EXPECT_EQ(written(report, Format::text),
            "speed    -\nname     a\\nb\noptions  softmax.logit_scale=none, taps=3\n");
  EXPECT_EQ(written(Summary(), Format::json), "{\n  \"schema\":1\n}\n");
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
  EXPECT_EQ(choose_format("", "out.tsv"), Format::tsv);
  for (const char* output : {"", "-", "out", "out.txt", "folder/", "out.", ".json", "csv"}) {
    EXPECT_EQ(choose_format("", output), Format::text) << output;
  }
  try {
    choose_format("xml", "");
    FAIL() << "xml is no format";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.hint(), HasSubstr("jsonl"));
  }
}

TEST(DelimitedRow, IsQuotedAsItsFormatWantsIt) {
  const std::vector<std::string> fields{"", " a ", "b\r", "c\td", "e\"|"};
  EXPECT_EQ(delimited_row(fields, Format::csv), ", a ,\"b\r\",c\td,\"e\"\"|\"\n");
  EXPECT_EQ(delimited_row(fields, Format::md), "|  |  a  | b\r | c\td | e\"\\| |\n");
  const std::vector<std::string> odd{"a\tb", "c\nd\re", "f\\g", "h,\"i\""};
  EXPECT_EQ(delimited_row(odd, Format::tsv), "a\\tb\tc\\nd\\re\tf\\\\g\th,\"i\"\n");
  EXPECT_EQ(header_row(std::vector<std::string>{"a", "b"}, Format::md),
            "| a | b |\n| --- | --- |\n");
}

}  // namespace
}  // namespace hydrascope::app
