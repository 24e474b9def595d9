#include "app/evaluate/diagnostics_report.h"

#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <limits>
#include <sstream>

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
  const Json json = Json::parse(json_text(two_layers().json()));
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
  std::ostringstream out;
  two_layers().write_text(out);
  EXPECT_THAT(out.str(), HasSubstr("layer  head  mechanism  entropy     |c|\n"));
  EXPECT_THAT(out.str(), HasSubstr("    1     0  hydra            -  0.2500\n"));
  EXPECT_THAT(out.str(), HasSubstr("3 pictures, 197 queries"));
  EXPECT_THAT(out.str(), HasSubstr("note: a note\n"));
}

TEST(DiagnosticsReportTest, PageHasAChartAColumn) {
  const std::string page = two_layers().page();
  std::size_t charts = 0;
  for (auto at = page.find("<svg"); at != page.npos; at = page.find("<svg", at + 1)) ++charts;
  EXPECT_EQ(charts, 2U);
  EXPECT_THAT(page, HasSubstr("a&lt;b"));
  EXPECT_THAT(page, Not(HasSubstr("a<b")));
  EXPECT_THAT(page, HasSubstr("head 1"));
  EXPECT_THAT(page, HasSubstr("<p>a note</p>"));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, Not(HasSubstr("{{")));
}

TEST(DiagnosticsReportTest, FilesByTheirExtension) {
  const testing::TemporaryFolder folder;
  const auto written = [&](const char* name) {
    const std::string file = (folder.path() / name).string();
    check_diagnostics_file(file, "--output");
    write_diagnostics(two_layers(), file, "--output");
    return testing::read_bytes(file);
  };
  EXPECT_EQ(Json::parse(written("a.json")).at("images"), 3);
  EXPECT_EQ(Json::parse(written("a.json")).at("schema"), 1);
  EXPECT_THAT(written("a.html"), HasSubstr("<!doctype html>"));
  EXPECT_THAT(written("a.csv"), HasSubstr("layer,head,mechanism,entropy,global_norm\n0,,softmax,"));
  EXPECT_THAT(written("a.tsv"), HasSubstr("layer\thead"));
  EXPECT_THAT(written("a.txt"), HasSubstr("queries"));
  EXPECT_ERROR(check_diagnostics_file("a.png", "--output"), invalid_argument, ".html",
               "--output a.png");
  EXPECT_NO_THROW(check_diagnostics_file("-", "--output"));
}

}  // namespace
}  // namespace hydrascope::app
