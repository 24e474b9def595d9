#include "kernels/device/fastest_way.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace hydrascope::kernels::device {
namespace fastest_way_test {

constexpr float kFails = std::numeric_limits<float>::infinity();

/// Ways that take what they are told, in turns; below 0: it does not run.
struct Clock {
  std::vector<std::vector<float>> taken;
  std::string calls;

  int choose(bool deterministic = false) {
    std::vector<std::size_t> turn(taken.size());
    calls.clear();
    return fastest_way(
        static_cast<int>(taken.size()), deterministic,
        [&](int way) { return taken[static_cast<std::size_t>(way)][0] >= 0; },
        [&](int way) {
          const auto at = static_cast<std::size_t>(way);
          calls += std::to_string(way);
          return taken[at][turn[at]++ % taken[at].size()];
        });
  }
};

TEST(FastestWay, IsTheOneThatTakesLeast) {
  Clock clock{{{5}, {2}, {9}}, ""};
  EXPECT_EQ(clock.choose(), 1);
  EXPECT_EQ(clock.calls, "012") << "no other is near: none is timed again";
  EXPECT_EQ(clock.choose(true), 0);
  EXPECT_EQ(clock.calls, "") << "nothing that depends on a clock";
}

TEST(FastestWay, ThoseNearItAreTimedAgainInTurns) {
  Clock clock{{{1.2F}, {1.0F, 2, 2, 2, 2}, {9}, {1.25F, 1, 1, 1, 1}, {1.29F}}, ""};
  EXPECT_EQ(clock.choose(), 3);
  EXPECT_EQ(clock.calls, "01234103103103103") << "three at most";
}

TEST(FastestWay, WhatDoesNotRunIsNotTaken) {
  Clock clock{{{-1}, {kFails}, {4}}, ""};
  EXPECT_EQ(clock.choose(), 2);
  EXPECT_EQ(clock.choose(true), 1) << "it ran once";
  clock.taken = {{-1}, {kFails}};
  EXPECT_EQ(clock.choose(), -1);
  clock.taken = {};
  EXPECT_EQ(clock.choose(), -1);
}

}  // namespace fastest_way_test
}  // namespace hydrascope::kernels::device
