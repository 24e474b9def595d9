#include "model/training/schedule.h"

#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace hydrascope::model::training {
namespace {

ScheduleOptions warmed_up(const std::string& kind) {
  ScheduleOptions options;
  options.kind = kind;
  options.learning_rate = 1e-3;
  options.steps = 100;
  options.warmup_steps = 5;
  options.warmup_learning_rate = 1e-6;
  return options;
}

void expect_rates(const ScheduleOptions& options,
                  const std::vector<std::pair<std::int64_t, double>>& expected) {
  validate(options);
  for (const auto& [step, rate] : expected)
    EXPECT_NEAR(learning_rate(options, step), rate, 1e-12 * rate) << options.kind << " at " << step;
}

// The values of timm 1.0.31's schedulers with t_in_epochs=False, warmup_prefix=False.
TEST(ScheduleTest, CosineIsTimms) {
  ScheduleOptions options = warmed_up("cosine");
  options.min_learning_rate = 1e-5;
  expect_rates(options, {{0, 1e-06},
                         {1, 0.00020080000000000003},
                         {4, 0.0008002000000000002},
                         {5, 0.0009939057285945933},
                         {6, 0.000991232189110701},
                         {50, 0.000505},
                         {99, 1.0244252618962858e-05}});
}

TEST(ScheduleTest, LinearIsTimmsPolynomialOfPowerOne) {
  ScheduleOptions options = warmed_up("linear");
  options.min_learning_rate = 1e-5;
  expect_rates(options,
               {{1, 0.00020080000000000003}, {5, 0.0009505}, {50, 0.000505}, {99, 1.99e-05}});
}

TEST(ScheduleTest, StaysBehindTheEndAndNeedNotWarmUp) {
  ScheduleOptions options = warmed_up("cosine");
  EXPECT_EQ(learning_rate(options, 100), learning_rate(options, 99));
  options.warmup_steps = 0;
  EXPECT_EQ(learning_rate(options, 0), 1e-3);
  options = warmed_up("constant");
  EXPECT_EQ(learning_rate(options, 5), 1e-3);
  EXPECT_EQ(learning_rate(options, 99), 1e-3);
}

TEST(ScheduleTest, RefusesWhatMakesNoSchedule) {
  ScheduleOptions options = warmed_up("cosin");
  EXPECT_ERROR(validate(options), invalid_argument, "cosin", "cosine, linear");
  options = warmed_up("cosine");
  options.learning_rate = -1;
  EXPECT_ERROR(validate(options), invalid_argument, "learning rate");
  options.learning_rate = -1e-9;
  EXPECT_ERROR(validate(options), invalid_argument, "found -1e-");  // and not -0.000000
  options = warmed_up("cosine");
  options.steps = 0;
  EXPECT_ERROR(validate(options), invalid_argument, "steps");
}

}  // namespace
}  // namespace hydrascope::model::training
