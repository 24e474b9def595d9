#include "app/scores/found_in_views.h"

#include <gtest/gtest.h>

namespace hydrascope::app {
namespace {

/// Tiles of 100 that begin three quarters of a tile apart, in a row.
std::vector<Box> row_of_tiles(std::int64_t count) {
  std::vector<Box> places;
  for (std::int64_t i = 0; i < count; ++i) places.push_back({75 * i, 0, 100, 100});
  return places;
}

TEST(FoundInViewsTest, ANeighbourHasToAgree) {
  const std::vector<std::vector<float>> seen{
      {0.9F, 0.05F}, {0.6F, 0.3F}, {0.0F, 0.9F}, {0.2F, 0.1F}};
  const std::vector<FoundInViews> found = found_in_views(seen, row_of_tiles(4));
  ASSERT_EQ(found.size(), 2);
  EXPECT_EQ(found[0].index, 0);
  EXPECT_EQ(found[0].view, 0);
  EXPECT_NEAR(found[0].probability, 0.9, 1e-6);
  EXPECT_NEAR(found[0].support, 0.6, 1e-6);
  EXPECT_EQ(found[1].index, 1) << "0.9 beside 0.3: sqrt(0.27)";
  EXPECT_EQ(found[1].view, 2);
}

TEST(FoundInViewsTest, APeakAloneIsNothing) {
  const std::vector<std::vector<float>> seen{{0.01F}, {0.95F}, {0.02F}, {0.9F}};
  EXPECT_TRUE(found_in_views(seen, row_of_tiles(4)).empty()) << "tiles that do not touch";
  EXPECT_TRUE(found_in_views(std::vector<std::vector<float>>{{1.0F}}, row_of_tiles(1)).empty());
  EXPECT_TRUE(found_in_views({}, {}).empty());
}

TEST(FoundInViewsTest, AnotherScaleAgreesToo) {
  const std::vector<Box> places{{0, 0, 400, 400}, {300, 300, 100, 100}, {0, 0, 100, 100}};
  const std::vector<FoundInViews> found =
      found_in_views(std::vector<std::vector<float>>{{0.5F}, {0.8F}, {0.0F}}, places);
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].view, 1) << "the surer one is the place";
}

TEST(FoundInViewsTest, OneClassAPlace) {
  const std::vector<std::vector<float>> seen{
      {0.5F, 0.5F}, {0.55F, 0.6F}, {0.0F, 0.1F}, {0.6F, 0.0F}, {0.7F, 0.0F}};
  const std::vector<FoundInViews> found = found_in_views(seen, row_of_tiles(5));
  ASSERT_EQ(found.size(), 2);
  EXPECT_EQ(found[0].view, 4);
  EXPECT_EQ(found[1].view, 1);
  EXPECT_EQ(found[1].index, 1) << "class 0 is less sure there";
}

}  // namespace
}  // namespace hydrascope::app
