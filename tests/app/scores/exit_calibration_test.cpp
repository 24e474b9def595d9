#include "app/scores/exit_calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace hydrascope::app {
namespace {

// scipy.stats.binom.cdf(k, n, p), SciPy 1.17.
TEST(BinomialTail, IsSciPys) {
  struct Case {
    std::int64_t n;
    double p;
    std::int64_t k;
    double tail;
  };
  for (const auto& [n, p, k, tail] :
       std::vector<Case>{{299, 0.01, 0, 0.049536256637662465},
                         {298, 0.01, 0, 0.05003662286632573},
                         {500, 0.02, 4, 0.028122586485324463},
                         {500, 0.02, 5, 0.0651918671024135},
                         {500, 0.05, 16, 0.034290186598394896},
                         {500, 0.05, 17, 0.055915560489194015},
                         {1000, 0.02, 12, 0.037604810397184225},
                         {1000, 0.05, 38, 0.043348190606908005},
                         {1000, 0.01, 4, 0.028686399999004478},
                         {4000, 0.01, 29, 0.04246730423548507},
                         {100000, 0.01, 948, 0.049907191895845915},
                         {100000, 0.01, 1000, 0.508409473351433},
                         {10, 0.5, 5, 0.623046875},
                         {1000000, 0.001, 900, 0.0006940154622868455}})
    EXPECT_NEAR(binomial_tail(n, p, k), tail, 1e-9 * tail) << n << ' ' << p << ' ' << k;
  EXPECT_EQ(binomial_tail(7, 0.3, 7), 1);
  EXPECT_EQ(binomial_tail(7, 0.3, -1), 0);
}

TEST(ExitCalibration, KnowsTheFewestPictures) {
  EXPECT_EQ(fewest_trials(0.01), 299);
  EXPECT_EQ(fewest_trials(0.05), 59);
}

TEST(ExitCalibration, CountsTheFirstExitAboveTheThreshold) {
  const std::vector<ExitTrial> trials{{{{0.9, true}, {0.2, false}}},
                                      {{{0.5, true}, {0.8, false}}},
                                      {{{0.1, false}, {0.6, true}}},
                                      {{{0.7, false}, {0.99, true}}}};
  const ExitOutcome found = outcome_at(0.6, trials, 2);
  EXPECT_EQ(found.left, (std::vector<std::int64_t>{2, 1, 1}));
  EXPECT_EQ(found.differing, 2);
  EXPECT_EQ(outcome_at(1, trials, 2).left, (std::vector<std::int64_t>{0, 0, 4}));
}

TEST(ExitCalibration, StopsBeforeTheFirstThresholdThatIsNotShown) {
  // 1000 pictures may have 4 that differ at 1 % (BinomialTail). The fifth has the score 0.8.
  std::vector<ExitTrial> trials(1000, {{{0.3, true}}});
  for (const std::size_t i : {0U, 1U, 2U, 3U}) trials[i] = {{{0.95, false}}};
  trials[4] = {{{0.8, false}}};
  const ExitOutcome found = calibrate_exit(trials, 1, 0.01);
  EXPECT_GE(found.threshold, 0.8);
  EXPECT_LT(found.threshold, 0.82);
  EXPECT_EQ(found.differing, 4);
  trials[4] = {{{0.8, true}}};
  EXPECT_LT(calibrate_exit(trials, 1, 0.01).threshold, 0.3) << "nothing stops it";
}

TEST(ExitCalibration, LetsNobodyLeaveOnTooFewPictures) {
  const std::vector<ExitTrial> trials(298, {{{0.99, true}}});
  EXPECT_EQ(calibrate_exit(trials, 1, 0.01).threshold, 1);
  EXPECT_LT(calibrate_exit(std::vector<ExitTrial>(299, {{{0.99, true}}}), 1, 0.01).threshold, 1);
}

// The calibration may find a threshold at which more than delta of all pictures differ in at most 5 % of its
// draws; 6.9 % of 1000 is almost three standard errors above that.
TEST(ExitCalibration, KeepsItsGuarantee) {
  constexpr int kDraws = 1000;
  constexpr int kPictures = 600;
  constexpr double kDelta = 0.02;
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(0, 1);
  // An exit whose score s is right with probability s^(1/4): at threshold t, integral_t^1 (1 - s^(1/4)) ds differ.
  const auto risk = [](double t) { return 0.2 - t + 0.8 * std::pow(t, 1.25); };
  int broken = 0;
  int left = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<ExitTrial> trials;
    for (int i = 0; i < kPictures; ++i) {
      const double score = uniform(random);
      trials.push_back({{{score, uniform(random) < std::pow(score, 0.25)}}});
    }
    const double threshold = calibrate_exit(trials, 1, kDelta).threshold;
    broken += risk(threshold) > kDelta ? 1 : 0;
    left += threshold < 1 ? 1 : 0;
  }
  EXPECT_LE(broken, 69);
  EXPECT_GT(broken, 0) << "a guarantee that is never broken wastes pictures";
  EXPECT_GT(left, kDraws * 9 / 10);
}

}  // namespace
}  // namespace hydrascope::app
