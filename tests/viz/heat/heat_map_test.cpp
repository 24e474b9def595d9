#include "viz/heat/heat_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace hydrascope::viz {
namespace heat_map_test {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

HeatMap row(std::vector<float> values) {
  const auto columns = static_cast<std::int64_t>(values.size());
  return {1, columns, std::move(values)};
}

/// 1 .. n, from the largest to the smallest.
HeatMap falling(int n) {
  HeatMap map{1, n, {}};
  for (int i = n; i > 0; --i) map.values.push_back(static_cast<float>(i));
  return map;
}

void expect_range(const ValueRange& range, float low, float high) {
  EXPECT_EQ(range.low, low);
  EXPECT_EQ(range.high, high);
}

TEST(HeatMapTest, SignsAreChosen) {
  const HeatMap map = row({-2, 0, 3, kNan});
  EXPECT_EQ(with_sign(map, Sign::both).values[0], -2);
  const HeatMap positive = with_sign(map, Sign::positive);
  EXPECT_EQ(positive.values[0], 0);
  EXPECT_EQ(positive.values[2], 3);
  EXPECT_TRUE(std::isnan(positive.values[3]));
  const HeatMap absolute = with_sign(map, Sign::absolute);
  EXPECT_EQ(absolute.values[0], 2);
  EXPECT_EQ(absolute.values[2], 3);
  EXPECT_TRUE(std::isnan(absolute.values[3]));
}

TEST(HeatMapTest, TheRangeIsFromTheSmallestToTheLargestNumber) {
  expect_range(range_of(row({3, -1, kNan, 2}), false, 0), -1, 3);
  expect_range(range_of(row({3, -5, kNan, 2}), true, 0), -5, 5);
  expect_range(range_of(row({kInfinity, 4, -kInfinity, 6}), false, 0), 4, 6);
  expect_range(range_of(row({7, 7}), false, 0), 7, 7);
  expect_range(range_of(row({kNan, kNan}), false, 0), 0, 0);
  expect_range(range_of({}, true, 10), 0, 0);
}

TEST(HeatMapTest, OutliersLieBeyondTheRange) {
  expect_range(range_of(falling(101), false, 0), 1, 101);
  // Distances from the median, 51, are 50, 50, 49, 49 and so on: 2550 in all.
  expect_range(range_of(falling(101), false, 1.9), 1, 101);
  expect_range(range_of(falling(101), false, 4), 2, 100);
  expect_range(range_of(falling(101), false, 100), 51, 51);
  // 5050 in all, from 0.
  expect_range(range_of(falling(100), true, 3.9), -99, 99);
  expect_range(range_of(falling(3), true, 100), -1, 1);
  expect_range(range_of(row({5}), true, 100), -5, 5);
  expect_range(range_of(row({7, 7, 7}), false, 50), 7, 7);
}

TEST(HeatMapTest, OutliersAreAShareOfTheHeatSoThatSmallObjectsKeepTheirColours) {
  HeatMap map{68, 120, std::vector<float>(68 * 120, 0)};
  for (std::size_t i = 0; i < 1000; ++i) map.values[8 * i] = 0.001F;  // here and there a little
  for (std::size_t i = 0; i < 20; ++i) map.values[4000 + i] = 1 + 0.1F * static_cast<float>(i);
  const ValueRange range = range_of(map, false, 20);
  EXPECT_EQ(range.low, 0);
  EXPECT_GT(range.high, 2) << "of 1 to 2.9, far above the rest";
  EXPECT_LT(range.high, 2.9F);
}

TEST(HeatMapTest, ASmoothHotCellIsRound) {
  HeatMap map{5, 5, std::vector<float>(25, 0)};
  map.values[12] = 1;
  constexpr std::int64_t kFactor = 5;
  const HeatMap fine = smoothed(map, kFactor);
  ASSERT_EQ(fine.rows, 25);
  ASSERT_EQ(fine.columns, 25);
  const auto at = [&](std::int64_t row, std::int64_t column) {
    return fine.values[static_cast<std::size_t>(row * fine.columns + column)];
  };
  EXPECT_FLOAT_EQ(at(12, 12), 1) << "the middle keeps its share";
  // Keys' weights at 2/5 and 3/5 of a cell: 1 - 5/2 t^2 + 3/2 t^3.
  EXPECT_NEAR(at(12, 14), 0.696, 1e-6);
  EXPECT_NEAR(at(12, 15), 0.424, 1e-6);
  EXPECT_NEAR(at(14, 14), 0.696 * 0.696, 1e-6) << "sqrt(8) places from the middle";
  EXPECT_NEAR(at(14, 14), (at(12, 14) + at(12, 15)) / 2, 0.1) << "as far along the row";
  EXPECT_EQ(at(14, 12), at(12, 14));
  EXPECT_EQ(at(12, 24), 0);
  EXPECT_EQ(*std::ranges::min_element(fine.values), 0) << "no dark ring";
}

TEST(HeatMapTest, SmoothCellsOfNoNumberStayAndCountForNoOther) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const HeatMap fine = smoothed({1, 3, {nan, 0.5F, 0.5F}}, 3);
  ASSERT_EQ(fine.values.size(), 27U);
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(std::isnan(fine.values[i]), i < 3) << i;
    if (i >= 3) {
      EXPECT_NEAR(fine.values[i], 0.5F, 1e-6) << i;
    }
  }
}

TEST(HeatMapTest, SharesOfARange) {
  const HeatMap shares = shares_of({1, 4, {-1, 1, 3, 9}}, {1, 5});
  EXPECT_EQ(shares.values, (std::vector<float>{0, 0, 0.5F, 1}));
  EXPECT_EQ(shares_of({1, 2, {7, 7}}, {7, 7}).values, (std::vector<float>{0, 0}));
}

}  // namespace heat_map_test
}  // namespace hydrascope::viz
