#include "model/inference/cpu/exit_score.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace hydrascope::model::inference {
namespace {

/// Logits of these probabilities, moved by a constant.
std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p) + 3));
  return logits;
}

float score(ExitRule rule, const std::vector<float>& logits) {
  return exit_score(rule, {.logits = logits});
}

TEST(ExitScore, IsTheMarginOfTheTwoLargestProbabilities) {
  EXPECT_NEAR(score(ExitRule::margin, logits_of({0.1, 0.6, 0.05, 0.25})), 0.35, 1e-6);
  EXPECT_NEAR(score(ExitRule::margin, logits_of({0.5, 0.5})), 0, 1e-6);
  EXPECT_NEAR(score(ExitRule::margin, {1000, 0, 0}), 1, 1e-7);
  EXPECT_EQ(score(ExitRule::margin, {7}), 1);
}

TEST(ExitScore, IsOneWithoutEntropyAndZeroAtTheLargest) {
  EXPECT_NEAR(score(ExitRule::entropy, logits_of({0.25, 0.25, 0.25, 0.25})), 0, 1e-6);
  EXPECT_NEAR(score(ExitRule::entropy, {500, 0, 0, 0}), 1, 1e-7);
  const double entropy = -(0.7 * std::log(0.7) + 0.2 * std::log(0.2) + 0.1 * std::log(0.1));
  EXPECT_NEAR(score(ExitRule::entropy, logits_of({0.7, 0.2, 0.1})), 1 - entropy / std::log(3.0),
              1e-6);
  EXPECT_EQ(score(ExitRule::entropy, {7}), 1);
}

TEST(ExitScore, IsTheCosineWithTheExitBefore) {
  const std::vector<float> a{3, 4, 0};
  const std::vector<float> b{6, 8, 0};
  const std::vector<float> c{-4, 3, 0};
  const auto cosine = [](const std::vector<float>& now, const std::vector<float>& before) {
    return exit_score(ExitRule::saturation, {.features = now, .previous = before});
  };
  EXPECT_NEAR(cosine(a, b), 1, 1e-7);
  EXPECT_NEAR(cosine(a, c), 0, 1e-7);
  EXPECT_EQ(cosine(a, {}), -1) << "the first exit has none before it";
}

TEST(ExitScore, IsTheProbabilityThatWasLearned) {
  EXPECT_NEAR(exit_score(ExitRule::learned, {.stop = 2}), 1 / (1 + std::exp(-2.0)), 1e-7);
}

TEST(ExitScore, OfLogitsThatAreNotFiniteIsAboveNoThreshold) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const ExitRule rule : {ExitRule::margin, ExitRule::entropy}) {
    EXPECT_FALSE(score(rule, {1, kNan, 0}) > -1);
    EXPECT_FALSE(score(rule, {kNan, 1, 0}) > -1);
    EXPECT_FALSE(score(rule, {kInfinity, 1, 0}) > -1);
  }
}

}  // namespace
}  // namespace hydrascope::model::inference
