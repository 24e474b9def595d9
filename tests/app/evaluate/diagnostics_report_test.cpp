#include "app/evaluate/diagnostics_report.h"

#include "tests/app/formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <limits>

namespace hydrascope::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

DiagnosticsReport two_layers() {
  DiagnosticsReport report;
  report.model = "a<b";
  report.attention = "softmax:0,hydra:1";
  report.images = 3;
  report.queries = 197;
  report.columns = {{"entropy", "entropy", "of the rows"},
                    {"reference_kl", "KL reference", "never here"},
                    {"global_norm", "|c|", "of Hydra"}};
  report.rows = {{0, "softmax", -1, {2.5, kNone, kNone}}, {0, "softmax", 0, {2, kNone, kNone}},
                 {0, "softmax", 1, {3, kNone, kNone}},    {1, "hydra", -1, {kNone, kNone, 0.5}},
                 {1, "hydra", 0, {kNone, kNone, 0.25}},   {1, "hydra", 1, {kNone, kNone, 0.75}}};
  report.notes = {"a note"};
  report.drop_empty_columns();
  return report;
}

TEST(DiagnosticsReportTest, ColumnsWithoutANumberAreLeftOut) {
  const DiagnosticsReport report = two_layers();
  ASSERT_EQ(report.columns.size(), 2U);
  EXPECT_EQ(report.columns[1].key, "global_norm");
  EXPECT_EQ(report.rows[3].values.size(), 2U);
  EXPECT_EQ(report.rows[3].values[1], 0.5);
}

TEST(DiagnosticsReportTest, Json) {
  const Json json = Json::parse(json_text(two_layers().report().json()));
  EXPECT_EQ(json.at("model"), "a<b");
  EXPECT_EQ(json.at("images"), 3);
  EXPECT_EQ(json.at("columns").at("global_norm"), "of Hydra");
  const Json& rows = json.at("rows");
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_TRUE(rows[0].at("head").is_null());
  EXPECT_EQ(rows[2].at("head"), 1);
  EXPECT_EQ(rows[2].at("entropy"), 3.0);
  EXPECT_TRUE(rows[2].at("global_norm").is_null());
  EXPECT_EQ(rows[4].at("mechanism"), "hydra");
  EXPECT_EQ(json.at("notes"), Json({"a note"}));
  EXPECT_FALSE(json.contains("against"));
}

TEST(DiagnosticsReportTest, Text) {
  const std::string text = testing::written(two_layers().report(), Format::text);
  EXPECT_THAT(text, HasSubstr("images     3\nfailed     0\nqueries    197\n"));
  EXPECT_THAT(text, HasSubstr("layer  head  mechanism  entropy     |c|\n"));
  EXPECT_THAT(text, HasSubstr("    1     0  hydra            -  0.2500\n"));
  EXPECT_THAT(text, HasSubstr("|c|: of Hydra\n"));
  EXPECT_THAT(text, HasSubstr("note: a note\n"));
  EXPECT_THAT(testing::written(two_layers().report(), Format::csv),
              HasSubstr("layer,head,mechanism,entropy,global_norm\n0,,softmax,"));
}

TEST(DiagnosticsReportTest, PageHasAChartAColumn) {
  const std::string page = two_layers().report().page();
  std::size_t charts = 0;
  for (auto at = page.find("<svg"); at != page.npos; at = page.find("<svg", at + 1)) ++charts;
  EXPECT_EQ(charts, 2U);
  EXPECT_THAT(page, HasSubstr("a&lt;b"));
  EXPECT_THAT(page, Not(HasSubstr("a<b")));
  EXPECT_THAT(page, HasSubstr("head 1"));
  EXPECT_THAT(page, HasSubstr("all heads"));
  EXPECT_THAT(page, HasSubstr("<tr class=\"strong\"><td>0</td>"));
  EXPECT_THAT(page, HasSubstr("<strong>a note</strong>"));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, Not(HasSubstr("{{")));
}

}  // namespace
}  // namespace hydrascope::app
