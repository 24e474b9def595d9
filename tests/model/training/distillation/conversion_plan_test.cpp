#include "model/training/distillation/conversion_plan.h"

#include <gtest/gtest.h>

#include <vector>

namespace hydrascope::model::training {
namespace {

constexpr StageOptions kWhole{
    .steps = 1700, .learning_rate = 1e-3, .batch_size = 32, .warmup_steps = 85, .evaluations = 10};

double share(const std::vector<Stage>& stages) { return time_share(stages); }

TEST(ConversionPlanTest, AStageHasAFixedPartOfTheTimeLeftAndTheLastOneAllOfIt) {
  EXPECT_DOUBLE_EQ(share({Stage::outputs, Stage::finetune}), 1.0 / 9);
  EXPECT_DOUBLE_EQ(share({Stage::maps, Stage::finetune}), 3.0 / 11);
  EXPECT_DOUBLE_EQ(share({Stage::finetune, Stage::sizes}), 2.0 / 3);
  for (const Stage stage :
       {Stage::maps, Stage::outputs, Stage::finetune, Stage::sizes, Stage::exits})
    EXPECT_EQ(share({stage}), 1);
}

TEST(ConversionPlanTest, StepsAndTheirLooksFillTheTimeAndNoMore) {
  const double cost = 0.5 + 5.0 * 10 / 1700;
  for (const double seconds : {20.0, 60.0, 570.0, 895.0}) {
    const auto steps = static_cast<double>(steps_within(seconds, 0.5, 5, kWhole));
    EXPECT_LE(steps * cost, seconds);
    EXPECT_GT((steps + 1) * cost, seconds);
  }
  for (const double seconds : {910.0, 1e300})
    EXPECT_EQ(steps_within(seconds, 0.5, 5, kWhole), 1700);
  EXPECT_EQ(steps_within(1, 0, 0, kWhole), 1700) << "no clock is that fine";
  for (const double seconds : {-1e300, 0.0, 4.0}) {
    EXPECT_EQ(steps_within(seconds, 0.5, 5, kWhole), 10);
    EXPECT_EQ(steps_within(seconds, 0.5, 5, {.steps = 4}), 4) << "all of its own";
  }
}

TEST(ConversionPlanTest, WarmUpAndLooksShrinkWithTheSteps) {
  const StageOptions half = shortened(kWhole, 850, /*ends_run=*/true);
  EXPECT_EQ(half.steps, 850);
  EXPECT_EQ(half.warmup_steps, 42);
  EXPECT_EQ(half.evaluations, 5);
  EXPECT_EQ(half.learning_rate, 1e-3);
  EXPECT_EQ(half.batch_size, 32);
  EXPECT_EQ(shortened(kWhole, 20, true).evaluations, 1) << "the run ends with a look";
  EXPECT_EQ(shortened(kWhole, 20, false).evaluations, 0);
  EXPECT_EQ(shortened({.steps = 2, .warmup_steps = 2}, 2, true).warmup_steps, 1);
}

}  // namespace
}  // namespace hydrascope::model::training
