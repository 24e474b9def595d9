#include "app/scores/best_views.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

namespace hydrascope::app {
namespace best_views_test {

using Logits = std::array<float, 3>;

TEST(BestViewsTest, EachClassHasItsMostProbableView) {
  BestViews views;
  views.add(Logits{0, std::log(2.0F), 0}, 0);         // 1/4, 1/2, 1/4
  views.add(Logits{5, 5, 5}, 1);                      // 1/3 each
  views.add(Logits{10 + std::log(8.0F), 10, 10}, 2);  // 8/10, 1/10, 1/10
  const auto& classes = views.classes();
  ASSERT_EQ(classes.size(), 3U);
  EXPECT_NEAR(classes[0].probability, 0.8, 1e-7);
  EXPECT_EQ(classes[0].view, 2U);
  EXPECT_NEAR(classes[0].logit, 10 + std::log(8.0), 1e-5);
  EXPECT_NEAR(classes[1].probability, 0.5, 1e-7);
  EXPECT_EQ(classes[1].view, 0U);
  EXPECT_NEAR(classes[2].probability, 1.0 / 3, 1e-7) << "its largest logit is in another";
  EXPECT_EQ(classes[2].view, 1U);
  EXPECT_EQ(views.first(2), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(views.first(9), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(views.rank(2), 3);
}

TEST(BestViewsTest, AMixtureIsADistribution) {
  const BestViews views =
      BestViews::of_mixture(std::array{0.25, 0.75, 0.0}, std::array<std::size_t, 3>{4, 2, 0});
  EXPECT_EQ(views.first(2), (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(views.classes()[1].view, 2U);
  EXPECT_NEAR(views.classes()[0].logit, std::log(0.25), 1e-12);
  EXPECT_TRUE(std::isfinite(views.classes()[2].logit));
}

TEST(BestViewsTest, OfEqualOnesTheFirstViewAndTheLowerClassStay) {
  BestViews views;
  views.add(Logits{1, 1, 0}, 0);
  views.add(Logits{1, 1, 0}, 1);
  EXPECT_EQ(views.classes()[0].view, 0U);
  EXPECT_EQ(views.first(3), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(views.rank(0), 1);
  EXPECT_EQ(views.rank(1), 2);
}

TEST(BestViewsTest, NumbersTakeThePlaceOfNone) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  BestViews views;
  views.add(Logits{kNan, kNan, kNan}, 0);
  EXPECT_EQ(views.first(3), (std::vector<std::int64_t>{0, 1, 2}));
  views.add(Logits{0, 1, 2}, 1);
  views.add(Logits{kNan, kNan, kNan}, 2);
  for (const BestViews::Best& best : views.classes()) EXPECT_EQ(best.view, 1U);
  EXPECT_EQ(views.first(1), (std::vector<std::int64_t>{2}));
}

/// This lets `visualize` keep the tokens of a few views.
TEST(BestViewsTest, WhatIsAmongTheFirstInTheEndWasThereSinceItsBestView) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> value(0, 12);  // few values: many ties
  constexpr std::int64_t kFirst = 3;
  for (int trial = 0; trial < 200; ++trial) {
    BestViews views;
    std::vector<std::vector<std::int64_t>> firsts;
    for (std::size_t view = 0; view < 12; ++view) {
      std::array<float, 9> logits{};
      for (float& logit : logits) logit = static_cast<float>(value(random));
      views.add(logits, view);
      firsts.push_back(views.first(kFirst));
    }
    for (const std::int64_t index : firsts.back()) {
      for (std::size_t view = views.classes().at(static_cast<std::size_t>(index)).view; view < 12;
           ++view)
        EXPECT_NE(std::ranges::find(firsts[view], index), firsts[view].end());
    }
  }
}

}  // namespace best_views_test
}  // namespace hydrascope::app
