#include "app/evaluate/faithfulness_report.h"

#include "tests/app/formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <sstream>

namespace hydrascope::app {
namespace {

using hydrascope::testing::written;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

FaithfulnessReport two_measures() {
  FaithfulnessReport report;
  report.model = "tiny";
  report.attention = "softmax:0-9,hydra:10-11";
  report.layer = 11;
  report.steps = 14;
  report.blur_sigma = 11.2;
  report.random_draws = 5;
  report.seed = 42;
  report.images = 4;
  report.measures = {{"deletion", "while patches go", true},
                     {"insertion", "while patches come", false}};
  report.rows = {{"hydra", "deletion", {0.1, 0.2, 0.3, 0.2}, 2.5},
                 {"hydra", "insertion", {0.5, 0.6, 0.5, 0.6}, 2.5},
                 {"center", "deletion", {0.3, 0.4, 0.5, 0.5}, 2.5},
                 {"center", "insertion", {0.6, 0.7, 0.6, 0.8}, 2.5},
                 {"random", "deletion", {0.5, 0.5, 0.2, 0.6}, 12.5},
                 {"random", "insertion", {0.4, 0.4, 0.4, 0.4}, 12.5}};
  return report;
}

TEST(FaithfulnessReportTest, MeanHasTheSpreadOfASample) {
  const MeanOverPictures mean = mean_over({1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(mean.mean, 2.5);
  EXPECT_DOUBLE_EQ(mean.stddev, std::sqrt(5.0 / 3));
  EXPECT_DOUBLE_EQ(mean.standard_error, std::sqrt(5.0 / 3) / 2);
  EXPECT_DOUBLE_EQ(mean.margin, 3.182 * mean.standard_error);
  EXPECT_EQ(mean_over({0.25}).mean, 0.25);
  EXPECT_TRUE(std::isnan(mean_over({0.25}).stddev));
  EXPECT_TRUE(std::isnan(mean_over({0.25}).margin));
  EXPECT_TRUE(std::isnan(mean_over({}).mean));
}

TEST(FaithfulnessReportTest, ComparisonsArePairedAndStrict) {
  const FaithfulnessRow a{"a", "m", {0.1, 0.2, 0.9, 0.3}};
  const FaithfulnessRow b{"b", "m", {0.2, 0.2, 0.8, 0.5}};
  const PairedComparison lower = compare(a, b, /*lower_is_better=*/true);
  EXPECT_DOUBLE_EQ(lower.wins, 0.5) << "a tie is no win";
  EXPECT_NEAR(lower.difference.mean, -0.05, 1e-12);
  EXPECT_DOUBLE_EQ(compare(a, b, /*lower_is_better=*/false).wins, 0.25);
  // A constant offset is certain however much pictures differ.
  const FaithfulnessRow c{"c", "m", {0.0, 0.1, 0.8, 0.2}};
  EXPECT_NEAR(compare(c, a, true).difference.margin, 0, 1e-12);
}

TEST(FaithfulnessReportTest, JsonHoldsEveryRowWithItsBaselines) {
  const Json json = Json::parse(json_text(two_measures().report().json()));
  EXPECT_EQ(json.at("images"), 4);
  EXPECT_EQ(json.at("random_draws"), 5);
  ASSERT_EQ(json.at("rows").size(), 6U);
  const Json& hydra = json.at("rows")[0];
  EXPECT_EQ(hydra.at("map"), "hydra");
  EXPECT_EQ(hydra.at("measure"), "deletion");
  EXPECT_EQ(hydra.at("lower_is_better"), true);
  EXPECT_EQ(hydra.at("images"), 4);
  EXPECT_DOUBLE_EQ(hydra.at("auc"), 0.2);
  EXPECT_DOUBLE_EQ(hydra.at("vs_random"), -0.25);
  EXPECT_DOUBLE_EQ(hydra.at("beats_random"), 0.75);
  EXPECT_DOUBLE_EQ(hydra.at("beats_center"), 1.0);
  EXPECT_NEAR(hydra.at("margin95").get<double>(), 3.182 * hydra.at("standard_error").get<double>(),
              1e-6);
  const Json& random = json.at("rows")[4];
  EXPECT_TRUE(random.at("vs_random").is_null());
  EXPECT_DOUBLE_EQ(random.at("seconds"), 12.5);
}

TEST(FaithfulnessReportTest, WhoDoesNotBeatTheCentreIsNamed) {
  FaithfulnessReport report = two_measures();
  report.notes = {"hydra: signed, approximate"};
  EXPECT_THAT(report.all_notes(),
              ElementsAre("hydra: signed, approximate",
                          AllOf(HasSubstr("hydra loses to the centre by insertion"),
                                HasSubstr("-0.1250"))));
  report.rows[0].areas = {0.2, 0.5, 0.4, 0.5};
  EXPECT_THAT(report.all_notes()[1],
              HasSubstr("hydra does not clearly beat the centre by deletion"));
  report.rows[0].areas = report.rows[2].areas;
  EXPECT_THAT(report.all_notes()[1],
              HasSubstr("hydra does not clearly beat the centre by deletion (+0.0000 "));
  report.images = 0;
  for (FaithfulnessRow& row : report.rows) row.areas.clear();
  report.notes.clear();
  EXPECT_THAT(report.all_notes(), IsEmpty()) << "nothing was measured";
  EXPECT_TRUE(report.report().json().at("rows").empty());
  EXPECT_TRUE(report.report().json().at("blur_sigma").is_null());
  EXPECT_THAT(written(report.report(), Format::text), HasSubstr("note: no picture was measured\n"));
  EXPECT_EQ(std::ranges::count(written(report.report(), Format::csv), '\n'), 1) << "the header";
}

TEST(FaithfulnessReportTest, OnePictureHasNoSpread) {
  FaithfulnessReport report = two_measures();
  report.images = 1;
  for (FaithfulnessRow& row : report.rows) row.areas.resize(1);
  EXPECT_THAT(written(report.report(), Format::text), HasSubstr("0.1000 ± -"));
  EXPECT_TRUE(
      Json::parse(json_text(report.report().json())).at("rows")[0].at("margin95").is_null());
}

TEST(FaithfulnessReportTest, TextIsATableAMeasure) {
  const std::string text = written(two_measures().report(), Format::text);
  EXPECT_THAT(text, HasSubstr("deletion: while patches go; lower is better (layer 11, 4 "
                              "pictures)"));
  EXPECT_THAT(text, HasSubstr("insertion: while patches come; higher is better"));
  EXPECT_THAT(text, HasSubstr("0.2000 ± 0.1299"));
  EXPECT_THAT(text, HasSubstr("-0.2500 ± "));
  EXPECT_THAT(text, HasSubstr("75 %"));
  EXPECT_THAT(text, HasSubstr("random: mean of 5 maps per picture, seed 42"));
  EXPECT_THAT(text, HasSubstr("sigma 11.2 pixels"));
  EXPECT_THAT(text, HasSubstr("note: hydra loses to the centre by insertion"));
}

TEST(FaithfulnessReportTest, RowsAreAHeaderAndALineEach) {
  std::istringstream lines(written(two_measures().report(), Format::csv));
  std::vector<std::string> list;
  for (std::string line; std::getline(lines, line);) list.push_back(line);
  ASSERT_EQ(list.size(), 7U);
  EXPECT_THAT(list[0], HasSubstr("model,attention,layer,steps,map,measure,lower_is_better,"
                                 "images,auc,stddev,standard_error,margin95,vs_random"));
  EXPECT_THAT(list[1], HasSubstr("tiny,\"softmax:0-9,hydra:10-11\",11,14,hydra,deletion,true,"
                                 "4,0.2,"));
}

}  // namespace
}  // namespace hydrascope::app
