#include "viz/heat/placement.h"

#include "tests/viz/heat/cell_at.h"

#include <gtest/gtest.h>

namespace hydrascope::viz {
namespace {

TEST(PlacementTest, AWholePictureIsSeenAndDividedEvenly) {
  const Axis axis = Axis::whole(64, 4);
  EXPECT_EQ(seen(axis).begin, 0);
  EXPECT_EQ(seen(axis).end, 64);
  EXPECT_EQ(cell_at(axis, 0), 0);
  EXPECT_EQ(cell_at(axis, 15), 0);
  EXPECT_EQ(cell_at(axis, 16), 1);
  EXPECT_EQ(cell_at(axis, 63), 3);
}

TEST(PlacementTest, ACropLeavesTheEdgesUnseen) {
  // 512 pixels resized to 256, the middle 224 cut: pixels 32 .. 480 of the picture.
  const Axis axis{512, 256, 16, 224, 224, 14};
  EXPECT_EQ(seen(axis).begin, 32);
  EXPECT_EQ(seen(axis).end, 480);
  EXPECT_EQ(cell_at(axis, 31), -1);
  EXPECT_EQ(cell_at(axis, 32), 0);
  EXPECT_EQ(cell_at(axis, 63), 0);
  EXPECT_EQ(cell_at(axis, 64), 1);
  EXPECT_EQ(cell_at(axis, 479), 13);
  EXPECT_EQ(cell_at(axis, 480), -1);
}

TEST(PlacementTest, ACentreBetweenPixelsBelongsToTheSideItsPositionIsOn) {
  // 3 pixels resized to 2, one cut from position 1: it covers the picture from 1.5 on.
  const Axis axis{3, 2, 1, 1, 1, 1};
  EXPECT_EQ(seen(axis).begin, 1) << "the centre of pixel 1 is at 1.5";
  EXPECT_EQ(seen(axis).end, 3);
}

TEST(PlacementTest, PaddingAroundThePictureHoldsCellsWithoutPixels) {
  // border: 100 pixels in a window of 160, 30 in front of them.
  const Axis axis{100, 100, -30, 160, 160, 10};
  EXPECT_EQ(seen(axis).begin, 0);
  EXPECT_EQ(seen(axis).end, 100);
  EXPECT_EQ(cell_at(axis, 0), 1);
  EXPECT_EQ(cell_at(axis, 1), 1);
  EXPECT_EQ(cell_at(axis, 2), 2);
  EXPECT_EQ(cell_at(axis, 99), 8);
}

TEST(PlacementTest, PaddingBehindThePictureEndsIt) {
  // 1080 rows padded to 1088.
  const Axis axis{1080, 1080, 0, 1080, 1088, 68};
  EXPECT_EQ(seen(axis).end, 1080);
  EXPECT_EQ(cell_at(axis, 1079), 67);
}

}  // namespace
}  // namespace hydrascope::viz
