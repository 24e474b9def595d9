// Scores by hand, over a few made-up logits.
#include "app/scores/scores.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace scores_test {

using Json = nlohmann::json;

image::Labels six_classes() { return image::Labels::parse("a\nb\nc\nd\ne\nf\n", "six"); }

Json json_of(const ResultTable& table) { return Json::parse(json_text(table.json())); }

Json json_of(const Summary& summary) { return Json::parse(json_text(summary.json())); }

/// A picture of which only these numbers are used.
ScoredPicture picture(std::int64_t target, std::int64_t predicted, double confidence,
                      std::int64_t rank = 2) {
  ScoredPicture scored;
  scored.target = target;
  scored.predicted = predicted;
  scored.confidence = confidence;
  scored.rank = target == predicted ? 1 : rank;
  return scored;
}

TEST(ScoredPictureTest, NumbersOfASoftmax) {
  // Probabilities 1/8, 4/8, 1/8, 2/8.
  const std::array<float, 4> logits{0, std::log(4.0F), 0, std::log(2.0F)};
  const ScoredPicture scored = score_picture(logits, 3, 7);
  EXPECT_EQ(scored.index, 7U);
  EXPECT_EQ(scored.predicted, 1);
  EXPECT_EQ(scored.rank, 2);
  EXPECT_FALSE(scored.is_right());
  EXPECT_NEAR(scored.confidence, 0.5, 1e-7);
  EXPECT_NEAR(scored.target_probability, 0.25, 1e-7);
  EXPECT_NEAR(scored.log_loss, std::log(4.0), 1e-6);
  EXPECT_NEAR(scored.brier, 1.0 / 64 + 1.0 / 4 + 1.0 / 64 + 9.0 / 16, 1e-6);
  EXPECT_TRUE(score_picture(logits, 1, 0).is_right());
  EXPECT_FALSE(score_picture(logits, kNoClass, 0).is_labelled());
  EXPECT_EQ(score_picture(logits, kNoClass, 0).predicted, 1);
}

TEST(ScoredPictureTest, TiesGoToTheLowerClass) {
  const std::array<float, 4> logits{1, 2, 2, 1};
  EXPECT_EQ(score_picture(logits, 1, 0).rank, 1);
  EXPECT_EQ(score_picture(logits, 2, 0).rank, 2);
  EXPECT_EQ(score_picture(logits, 0, 0).rank, 3);
  EXPECT_EQ(score_picture(logits, 3, 0).rank, 4);
}

TEST(ScoredPictureTest, LargeLogitsAndNoNumbers) {
  const std::array<float, 2> large{3000, -3000};
  const ScoredPicture scored = score_picture(large, 1, 0);
  EXPECT_DOUBLE_EQ(scored.confidence, 1);
  EXPECT_DOUBLE_EQ(scored.log_loss, 6000);
  EXPECT_DOUBLE_EQ(scored.brier, 2);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::array<float, 3> broken{nan, 1, nan};
  EXPECT_EQ(score_picture(broken, 1, 0).predicted, 1);
  EXPECT_TRUE(score_picture(broken, 1, 0).is_right());
  EXPECT_FALSE(score_picture(broken, 0, 0).is_right());
  EXPECT_FALSE(score_picture(std::array<float, 3>{nan, nan, nan}, 0, 0).is_right());
}

TEST(AccuracyTest, TopFiveOfSix) {
  Accuracy accuracy;
  accuracy.add(picture(0, 0, 1));
  accuracy.add(picture(0, 1, 1, 5));
  accuracy.add(picture(0, 1, 1, 6));
  accuracy.add(picture(kNoClass, 1, 1));
  EXPECT_EQ(accuracy.images(), 3);
  EXPECT_NEAR(accuracy.top1(), 100.0 / 3, 1e-9);
  EXPECT_NEAR(accuracy.top5(), 200.0 / 3, 1e-9);
  EXPECT_TRUE(std::isnan(Accuracy().top1()));
}

TEST(CalibrationScoreTest, GapsOfTheBins) {
  CalibrationScore score;
  // (13/15, 14/15]: confidence 0.9 three times, two right. (14/15, 1]: 0.96 once, wrong.
  for (ScoredPicture one :
       {picture(0, 0, 0.9), picture(1, 1, 0.9), picture(0, 1, 0.9), picture(2, 1, 0.96)}) {
    one.log_loss = one.is_right() ? 0.1 : 2.3;
    one.brier = one.is_right() ? 0.02 : 1.7;
    score.add(one);
  }
  score.add(picture(kNoClass, 1, 0.2));
  const double first = 0.9 - 2.0 / 3;
  EXPECT_NEAR(score.expected_error(), 0.75 * first + 0.25 * 0.96, 1e-9);
  EXPECT_NEAR(score.negative_log_likelihood(), (0.2 + 4.6) / 4, 1e-9);
  EXPECT_NEAR(score.brier(), (0.04 + 3.4) / 4, 1e-9);
  const Json rows = json_of(score.reliability());
  ASSERT_EQ(rows.size(), 15U);
  EXPECT_EQ(rows[13].at("images"), 3);
  EXPECT_NEAR(rows[13].at("accuracy").get<double>(), 2.0 / 3, 1e-5);
  EXPECT_NEAR(rows[13].at("confidence").get<double>(), 0.9, 1e-5);
  EXPECT_EQ(rows[14].at("images"), 1);
  EXPECT_TRUE(rows[0].at("accuracy").is_null());
  EXPECT_TRUE(std::isnan(CalibrationScore().expected_error()));
}

TEST(CalibrationScoreTest, AnEdgeBelongsToTheBinBelow) {
  CalibrationScore score;
  score.add(picture(0, 0, 1.0));
  score.add(picture(0, 0, 1.0 / 3));
  const Json rows = json_of(score.reliability());
  EXPECT_EQ(rows[14].at("images"), 1);
  EXPECT_EQ(rows[4].at("images"), 1);
}

TEST(ConfusionCountsTest, Classes) {
  ConfusionCounts counts;
  counts.add(picture(0, 0, 1));
  for (const std::int64_t predicted : {2, 1, 2, 1}) counts.add(picture(0, predicted, 1, 6));
  for (int i = 0; i < 3; ++i) counts.add(picture(4, 5, 1, 2));
  counts.add(picture(kNoClass, 3, 1));
  const image::Labels labels = six_classes();
  const Json classes = json_of(counts.classes(labels));
  ASSERT_EQ(classes.size(), 2U);
  EXPECT_EQ(classes[0].at("class"), 0);
  EXPECT_EQ(classes[0].at("label"), "a");
  EXPECT_EQ(classes[0].at("images"), 5);
  EXPECT_EQ(classes[0].at("right"), 1);
  EXPECT_EQ(classes[0].at("top1"), 20.0);
  EXPECT_EQ(classes[0].at("top5"), 20.0);
  EXPECT_EQ(classes[0].at("taken_for"), 1) << "the lower of two as frequent";
  EXPECT_EQ(classes[0].at("taken_for_images"), 2);
  EXPECT_EQ(classes[1].at("top5"), 100.0);
  EXPECT_EQ(classes[1].at("taken_for_label"), "f");
  const Json worst = json_of(counts.classes(labels, 1));
  ASSERT_EQ(worst.size(), 1U);
  EXPECT_EQ(worst[0].at("class"), 4) << "never right";
}

TEST(AgreementTest, LogitsByHand) {
  // The reference says 1/2, 1/2; the model 3/4, 1/4.
  const std::array<float, 2> reference{5, 5};
  const std::array<float, 2> model{1 + std::log(3.0F), 1};
  const ComparedLogits compared = compare_logits(model, reference);
  EXPECT_NEAR(compared.divergence, 0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(0.5 / 0.25), 1e-6);
  EXPECT_NEAR(compared.largest_difference, 4, 1e-6);
  EXPECT_NEAR(compared.mean_difference, (8 - std::log(3.0)) / 2, 1e-6);
  EXPECT_EQ(compare_logits(model, model).divergence, 0);
}

TEST(ScoresTest, LinesOfTheSummary) {
  LabelledSet set;
  set.pictures = {{"1", 0}, {"2", 1}, {"3", 1}};
  Scores scores(set);
  const std::array<float, 3> zero{2, 1, 0};
  const std::array<float, 3> one{1, 2, 0};
  const auto add = [&](std::size_t index, const auto& logits, const auto& reference) {
    const ScoredPicture scored = score_picture(logits, set.pictures[index].target, index);
    scores.add(scored);
    scores.add_reference(scored, logits, reference);
  };
  add(0, zero, zero);  // both right
  add(1, one, zero);   // only the model
  add(2, zero, zero);  // both wrong
  scores.add_failure();
  Summary summary;
  scores.add_accuracy(summary);
  scores.add_calibration(summary);
  scores.add_agreement(summary);
  const Json json = json_of(summary);
  EXPECT_NEAR(json.at("top1").get<double>(), 200.0 / 3, 1e-3);
  EXPECT_EQ(json.at("images"), 3);
  EXPECT_EQ(json.at("failed"), 1);
  EXPECT_EQ(json.at("agreement_images"), 3);
  EXPECT_NEAR(json.at("agreement_top1").get<double>(), 200.0 / 3, 1e-3);
  EXPECT_EQ(json.at("largest_logit_difference"), 1.0);
  EXPECT_NEAR(json.at("mean_logit_difference").get<double>(), 2.0 / 9, 1e-5);
  EXPECT_NEAR(json.at("against_top1").get<double>(), 100.0 / 3, 1e-3);
  EXPECT_NEAR(json.at("top1_difference").get<double>(), 100.0 / 3, 1e-2);
  // Differences 0, 1 and 0: their deviation is sqrt(1/3), the mean's a sqrt(3)rd of it.
  EXPECT_NEAR(json.at("top1_difference_error").get<double>(), 100.0 / 3, 1e-2);
  EXPECT_TRUE(json.contains("ece"));
}

TEST(ScoresTest, EachClassThatHasPicturesCountsAsMuchInTheMeanOverClasses) {
  const LabelledSet set;
  Scores scores(set);
  for (int i = 0; i < 18; ++i) scores.add(picture(0, 0, 1));
  for (int i = 0; i < 2; ++i) scores.add(picture(4, 0, 1));
  Summary summary;
  scores.add_accuracy(summary);
  EXPECT_EQ(json_of(summary).at("top1"), 90.0);
  EXPECT_EQ(json_of(summary).at("top1_macro"), 50.0);
}

TEST(ScoresTest, WithoutLabelsThereIsNoAccuracy) {
  LabelledSet set;
  set.has_labels = false;
  set.pictures = {{"1"}};
  Scores scores(set);
  const std::array<float, 3> logits{2, 1, 0};
  const ScoredPicture scored = score_picture(logits, kNoClass, 0);
  scores.add(scored);
  scores.add_reference(scored, logits, logits);
  Summary summary;
  scores.add_accuracy(summary);
  scores.add_calibration(summary);
  scores.add_agreement(summary);
  const Json json = json_of(summary);
  EXPECT_TRUE(json.at("top1").is_null());
  EXPECT_EQ(json.at("images"), 1);
  EXPECT_EQ(json.at("agreement_top1"), 100.0);
  for (const char* key : {"top1_macro", "ece", "nll", "top1_difference"})
    EXPECT_FALSE(json.contains(key)) << key;
}

TEST(ScoresTest, AMeanOverNothingIsNoNumber) {
  LabelledSet set;
  set.pictures = {{"1", 0}};
  Scores scores(set);
  scores.add_failure();
  Summary summary;
  scores.add_accuracy(summary);
  scores.add_calibration(summary);
  scores.add_agreement(summary);
  const Json json = json_of(summary);
  EXPECT_EQ(json.at("images"), 0);
  EXPECT_EQ(json.at("failed"), 1);
  const std::set<std::string> counts{"schema", "images", "failed", "agreement_images"};
  for (const auto& [key, value] : json.items())
    EXPECT_EQ(value.is_null(), !counts.contains(key)) << key;
  for (const auto& [key, text] : summary.texts()) EXPECT_NE(text.find_first_of("-01"), text.npos);
  EXPECT_EQ(summary.texts()[0], (std::pair<std::string, std::string>("top1", "-")));
}

}  // namespace scores_test
}  // namespace hydrascope::app
