#include "model/training/data/random_stream.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

namespace hydrascope::model::training {
namespace {

struct Moments {
  double mean;
  double variance;
};

template <class Draw>
Moments moments(Draw draw, int count = 100000) {
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < count; ++i) {
    const double value = draw();
    sum += value;
    squares += value * value;
  }
  const double mean = sum / count;
  return {mean, squares / count - mean * mean};
}

// The key that leaves SplitMix64 seeded with 0, whose first numbers are published.
TEST(RandomStream, IsSplitMix64) {
  RandomStream stream{0x9E3779B97F4A7C15};
  EXPECT_EQ(stream(), 0xE220A8397B1DCDAF);
  EXPECT_EQ(stream(), 0x6E789E6AA1B965F4);
  EXPECT_EQ(stream(), 0x06C45D188009454F);
}

TEST(RandomStream, EveryPartOfTheKeyCounts) {
  std::set<std::uint64_t> firsts;
  for (std::uint64_t a = 0; a < 20; ++a)
    for (std::uint64_t b = 0; b < 20; ++b) firsts.insert(RandomStream({a, b})());
  firsts.insert(RandomStream({1})());
  firsts.insert(RandomStream({0, 0, 0})());
  EXPECT_EQ(firsts.size(), 402);
}

TEST(RandomStream, UniformFillsItsRange) {
  RandomStream stream{1};
  const Moments unit = moments([&] { return stream.uniform(); });
  EXPECT_NEAR(unit.mean, 0.5, 0.005);
  EXPECT_NEAR(unit.variance, 1.0 / 12, 0.002);
  for (int i = 0; i < 1000; ++i) {
    const double value = stream.uniform(-3, 5);
    ASSERT_GE(value, -3);
    ASSERT_LT(value, 5);
  }
}

TEST(RandomStream, BelowIsUniform) {
  RandomStream stream{2};
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; ++i) ++counts.at(stream.below(7));
  for (const int count : counts) EXPECT_NEAR(count, 10000, 400);
  EXPECT_EQ(stream.below(1), 0);
  // A count of more than 2^63 is rejected in nearly half of all draws.
  const std::uint64_t large = (std::uint64_t{1} << 63) + 1;
  for (int i = 0; i < 100; ++i) ASSERT_LT(stream.below(large), large);
}

TEST(RandomStream, Normal) {
  RandomStream stream{3};
  const Moments found = moments([&] { return stream.normal(); });
  EXPECT_NEAR(found.mean, 0, 0.015);
  EXPECT_NEAR(found.variance, 1, 0.02);
}

// The mean and variance of gamma(a, 1) are a, below and above the shape of 1 where the method changes.
TEST(RandomStream, Gamma) {
  for (const double shape : {0.2, 0.8, 1.0, 4.5}) {
    RandomStream stream{4};
    const Moments found = moments([&] { return stream.gamma(shape); });
    EXPECT_NEAR(found.mean, shape, 0.03 * std::sqrt(shape) + 0.01) << shape;
    EXPECT_NEAR(found.variance, shape, 0.08 * shape + 0.02) << shape;
  }
}

TEST(RandomStream, Beta) {
  RandomStream stream{5};
  const Moments mixup = moments([&] { return stream.beta(0.8, 0.8); });
  EXPECT_NEAR(mixup.mean, 0.5, 0.005);
  EXPECT_NEAR(mixup.variance, 0.25 / (0.8 + 0.8 + 1), 0.003);
  const Moments skewed = moments([&] { return stream.beta(2, 6); });
  EXPECT_NEAR(skewed.mean, 0.25, 0.005);
}

TEST(RandomStream, BetaOfTinyShapesIsZeroOrOne) {
  RandomStream stream{6};
  const Moments found = moments([&] { return stream.beta(1e-6, 1e-6); }, 2000);
  EXPECT_NEAR(found.mean, 0.5, 0.05);
  EXPECT_NEAR(found.variance, 0.25, 0.01);
}

}  // namespace
}  // namespace hydrascope::model::training
