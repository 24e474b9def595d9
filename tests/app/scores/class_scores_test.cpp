#include "app/scores/class_scores.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace hydrascope::app {
namespace class_scores_test {

using Logits = std::array<float, 3>;

TEST(ClassScoresTest, ClassesAreInTheOrderOfTheirProbabilities) {
  const ClassScores scores(Logits{10, 10 + std::log(8.0F), 10});
  const auto& classes = scores.classes();
  ASSERT_EQ(classes.size(), 3U);
  EXPECT_NEAR(classes[0].probability, 0.1, 1e-7);
  EXPECT_NEAR(classes[1].probability, 0.8, 1e-7);
  EXPECT_NEAR(classes[1].logit, 10 + std::log(8.0), 1e-5);
  EXPECT_EQ(scores.first(1), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(scores.first(9), (std::vector<std::int64_t>{1, 0, 2}));
  EXPECT_EQ(scores.rank(1), 1);
  EXPECT_EQ(scores.rank(2), 3) << "of equal ones the lower class is first";
}

TEST(ClassScoresTest, AMixtureIsADistribution) {
  const ClassScores scores = ClassScores::of_mixture(std::array{0.25, 0.75, 0.0});
  EXPECT_EQ(scores.first(2), (std::vector<std::int64_t>{1, 0}));
  EXPECT_NEAR(scores.classes()[0].logit, std::log(0.25), 1e-12);
  EXPECT_TRUE(std::isfinite(scores.classes()[2].logit));
}

TEST(ClassScoresTest, WhatIsNoNumberKeepsTheOrderOfTheClasses) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(ClassScores(Logits{kNan, kNan, kNan}).first(3), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_TRUE(ClassScores(std::span<const float>()).first(3).empty()) << "no classifier";
}

}  // namespace class_scores_test
}  // namespace hydrascope::app
