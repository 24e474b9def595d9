#include "model/training/distillation/conversion_plan.h"

#include "kernels/error.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hydrascope::model::training {
namespace {

constexpr ConversionCosts kCosts{.picture = {0.1, 0.2 / 32, 0.5 / 32, 0.4}, .look = 5};
constexpr FreeChoices kNothing{.rate = false, .batch = false};

std::vector<PlannedStage> stages() {
  return {{Stage::outputs,
           {.steps = 100,
            .learning_rate = 1e-3,
            .batch_size = 32,
            .warmup_steps = 10,
            .evaluations = 2}},
          {Stage::finetune,
           {.steps = 1700,
            .learning_rate = 1e-3,
            .batch_size = 32,
            .warmup_steps = 85,
            .evaluations = 10}}};
}

TEST(ConversionPlanTest, TakesWhatStepsAndLooksTake) {
  EXPECT_DOUBLE_EQ(seconds_of(stages(), kCosts), 20 + 10 + 850 + 50);
  EXPECT_DOUBLE_EQ(seconds_of({}, kCosts), 0);
}

TEST(ConversionPlanTest, WithTimeEnoughNothingChanges) {
  std::vector<PlannedStage> plan = stages();
  EXPECT_TRUE(fit(plan, kCosts, 930));
  EXPECT_EQ(to_json(plan), to_json(stages()));
}

TEST(ConversionPlanTest, FillsTheTimeAndNoMore) {
  for (const double seconds : {20.0, 60.0, 150.0, 570.0, 905.0}) {
    std::vector<PlannedStage> plan = stages();
    ASSERT_TRUE(fit(plan, kCosts, seconds, kNothing)) << seconds;
    EXPECT_LE(seconds_of(plan, kCosts), seconds);
    EXPECT_GT(seconds_of(plan, kCosts), seconds - 6) << "a look and a step are left at most";
    const StageOptions& first = plan[0].options;
    const StageOptions& last = plan[1].options;
    const double share = static_cast<double>(last.steps) / 1700;
    EXPECT_NEAR(static_cast<double>(first.steps), 100 * std::sqrt(share), 1.5);
    EXPECT_NEAR(static_cast<double>(last.warmup_steps), 85 * share, 1.5);
    EXPECT_GE(last.evaluations, 1);
    EXPECT_LE(static_cast<double>(last.evaluations - 1) * kCosts.look,
              0.05 * static_cast<double>(last.steps) * kCosts.of_step(plan[1]));
    EXPECT_EQ(last.learning_rate, 1e-3);
    EXPECT_EQ(last.batch_size, 32);
  }
}

TEST(ConversionPlanTest, LooksThatCostTooMuchAreLeftOut) {
  std::vector<PlannedStage> plan = stages();
  ASSERT_TRUE(fit(plan, kCosts, 60, kNothing));
  EXPECT_EQ(plan[0].options.evaluations, 0);
  EXPECT_EQ(plan[1].options.evaluations, 1);
}

TEST(ConversionPlanTest, AShortLastStageTakesSmallBatchesAtALowerRate) {
  std::vector<PlannedStage> plan = stages();
  ASSERT_TRUE(fit(plan, kCosts, 120));
  EXPECT_LE(seconds_of(plan, kCosts), 120);
  EXPECT_GT(seconds_of(plan, kCosts), 114);
  EXPECT_EQ(plan[0].options.batch_size, 16);
  EXPECT_EQ(plan[1].options.batch_size, 16);
  EXPECT_GE(plan[1].options.steps, 300);
  const double share = static_cast<double>(plan[1].options.steps) / 3400;
  EXPECT_NEAR(plan[1].options.learning_rate, 1e-3 * std::pow(share, 0.15), 1e-9);
  EXPECT_EQ(plan[0].options.learning_rate, 1e-3) << "of the last stage alone";
  std::vector<PlannedStage> longer = stages();
  ASSERT_TRUE(fit(longer, kCosts, 500));
  EXPECT_EQ(longer[1].options.batch_size, 32);
  EXPECT_GT(longer[1].options.learning_rate, plan[1].options.learning_rate);
}

TEST(ConversionPlanTest, LittleTimeIsOfTheLastStage) {
  // A look, and some steps of half a second.
  for (const auto& [seconds, steps] : {std::pair(5.6, 1), {7.1, 4}, {9.6, 9}}) {
    std::vector<PlannedStage> plan = stages();
    ASSERT_TRUE(fit(plan, kCosts, seconds, kNothing)) << seconds;
    ASSERT_EQ(plan.size(), 1) << seconds;
    EXPECT_EQ(plan[0].stage, Stage::finetune);
    EXPECT_EQ(plan[0].options.steps, steps);
    EXPECT_EQ(plan[0].options.evaluations, 1);
    EXPECT_LT(plan[0].options.warmup_steps, steps);
    EXPECT_LE(seconds_of(plan, kCosts), seconds);
  }
}

TEST(ConversionPlanTest, AStageOfMapsAloneIsShortened) {
  std::vector<PlannedStage> plan{{Stage::maps, {.steps = 400, .evaluations = 1}}};
  ASSERT_TRUE(fit(plan, kCosts, 100));
  EXPECT_LT(plan[0].options.steps, 100);
}

TEST(ConversionPlanTest, TooLittleTimeIsNoPlan) {
  for (const double seconds : {-1.0, 0.0, 5.2}) {
    std::vector<PlannedStage> plan = stages();
    EXPECT_FALSE(fit(plan, kCosts, seconds, kNothing)) << seconds;
    EXPECT_EQ(to_json(plan), to_json(stages()));
  }
}

TEST(ConversionPlanTest, GoesThroughJson) {
  const std::string text = to_json(stages());
  EXPECT_EQ(to_json(plan_from_json(text, "a state")), text);
  for (const char* bad : {"", "{}x", R"([{"stage": "polish"}])", R"([{"stage": "maps"}])",
                          R"([{"stage": "maps", "steps": 0, "learning_rate": 1, "min_learning_rate":
                          0, "batch_size": 1, "warmup_steps": 0, "evaluations": 1}])"})
    EXPECT_THROW(plan_from_json(bad, "a state"), Error) << bad;
  try {
    plan_from_json(R"([{"stage": 3}])", "a state");
    ADD_FAILURE() << "3 is no stage";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "type must be string, but is number");
  }
}

}  // namespace
}  // namespace hydrascope::model::training
