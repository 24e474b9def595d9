#include "model/explain/baseline_maps.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace hydrascope::model::explain {
namespace {

using Seed = std::array<std::uint32_t, 2>;

TEST(BaselineMapsTest, ASeedMakesOneRandomMap) {
  const at::Tensor map = random_map(14, 14, Seed{42, 0});
  EXPECT_TRUE(at::equal(map, random_map(14, 14, Seed{42, 0})));
  EXPECT_FALSE(at::equal(map, random_map(14, 14, Seed{42, 1})));
  EXPECT_FALSE(at::equal(map, random_map(14, 14, Seed{43, 0})));
  EXPECT_GE(map.min().item<float>(), 0.0F);
  EXPECT_LT(map.max().item<float>(), 1.0F);
  EXPECT_NEAR(random_map(100, 100, Seed{1, 2}).mean().item<double>(), 0.5, 0.01);
}

TEST(BaselineMapsTest, RandomMapsAreTheSameOnEveryMachine) {
  // The numbers of the standard's seed_seq and mt19937_64 for the words 42, 0: the upper 24 bits.
  const at::Tensor map = random_map(1, 2, Seed{42, 0});
  EXPECT_EQ(std::ldexp(map[0][0].item<float>(), 24), 5559825.0F);
  EXPECT_EQ(std::ldexp(map[0][1].item<float>(), 24), 9904547.0F);
}

TEST(BaselineMapsTest, TheCentreIsAGaussianOfAQuarterOfEachEdge) {
  const at::Tensor map = center_map(8, 4);
  EXPECT_TRUE(at::equal(map, map.flip({0})));
  EXPECT_TRUE(at::equal(map, map.flip({1})));
  const auto at = [&](std::int64_t row, std::int64_t column) {
    return map[row][column].item<double>();
  };
  EXPECT_NEAR(at(1, 0), std::exp(-0.5 * (1.25 * 1.25 + 1.5 * 1.5)), 1e-6);
  EXPECT_NEAR(at(0, 1) / at(3, 1), std::exp(-0.5 * (1.75 * 1.75 - 0.25 * 0.25)), 1e-6);
  const at::Tensor odd = center_map(3, 5);
  EXPECT_EQ(odd[1][2].item<float>(), 1.0F);
}

}  // namespace
}  // namespace hydrascope::model::explain
