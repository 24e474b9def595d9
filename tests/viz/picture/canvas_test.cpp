#include "viz/picture/canvas.h"

#include "tests/error_matchers.h"
#include "tests/viz/picture/pixel_colors.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <limits>

namespace hydrascope::viz {
namespace canvas_test {

constexpr Color kBlack{0, 0, 0};
constexpr Color kRed{200, 10, 20};

int count(const Canvas& canvas, Color color) {
  return count_pixels(canvas, [color](Color found) { return found == color; });
}

TEST(CanvasTest, RectanglesAreClipped) {
  Canvas canvas = filled(7, 5, kBlack);
  EXPECT_EQ(count(canvas, kBlack), 35);
  fill_rectangle(canvas, 2, 1, 3, 2, kRed);
  EXPECT_EQ(count(canvas, kRed), 6);
  EXPECT_EQ(color_at(canvas, 2, 1), kRed);
  EXPECT_EQ(color_at(canvas, 4, 2), kRed);
  EXPECT_EQ(color_at(canvas, 5, 2), kBlack);
  fill_rectangle(canvas, -3, -3, 4, 4, kRed);
  EXPECT_EQ(count(canvas, kRed), 7);
  constexpr int kFar = std::numeric_limits<int>::max();
  fill_rectangle(canvas, 6, 4, kFar, kFar, kRed);
  EXPECT_EQ(count(canvas, kRed), 8);
  fill_rectangle(canvas, kFar, -kFar, 1, kFar, kRed);
  fill_rectangle(canvas, 1, 1, -5, 2, kRed);
  EXPECT_EQ(count(canvas, kRed), 8);
}

TEST(CanvasTest, WhatFallsOutsideIsNotPasted) {
  Canvas stamp = filled(3, 2, kRed);
  stamp.rgb[0] = 1;  // the corner
  for (const int x : {-3, -2, 0, 5, 6, 7, 1000, -1000}) {
    for (const int y : {-2, -1, 0, 3, 4, 5, -1000}) {
      Canvas canvas = filled(7, 5, kBlack);
      paste(canvas, stamp, x, y);
      for (int row = 0; row < 5; ++row) {
        for (int column = 0; column < 7; ++column) {
          const bool inside = column >= x && column < x + 3 && row >= y && row < y + 2;
          const Color wanted = !inside ? kBlack : column == x && row == y ? Color{1, 10, 20} : kRed;
          ASSERT_EQ(color_at(canvas, column, row), wanted) << x << ", " << y;
        }
      }
    }
  }
}

TEST(CanvasTest, ShrinkingTakesTheMeanOfWhatAPixelCovers) {
  Canvas canvas = filled(4, 2, kBlack);
  fill_rectangle(canvas, 0, 0, 1, 2, {200, 0, 0});
  fill_rectangle(canvas, 2, 1, 2, 1, {0, 100, 0});
  const Canvas half = fitted(canvas, 2, 2);
  EXPECT_EQ(half.width, 2);
  EXPECT_EQ(half.height, 1);
  EXPECT_EQ(color_at(half, 0, 0), (Color{100, 0, 0}));
  EXPECT_EQ(color_at(half, 1, 0), (Color{0, 50, 0}));

  // 3 pixels to 2: each is one and a half.
  Canvas row = filled(3, 3, kBlack);
  fill_rectangle(row, 1, 0, 1, 3, {90, 90, 90});
  const Canvas two = fitted(row, 2, 9);
  EXPECT_EQ(two.height, 2);
  EXPECT_EQ(color_at(two, 0, 1), (Color{30, 30, 30}));
  EXPECT_EQ(color_at(two, 1, 0), (Color{30, 30, 30}));
}

TEST(CanvasTest, GrowingIsLinearBetweenCentres) {
  Canvas canvas = filled(2, 1, kBlack);
  fill_rectangle(canvas, 1, 0, 1, 1, {200, 100, 40});
  const Canvas grown = fitted(canvas, 8, 4);
  EXPECT_EQ(grown.width, 8);
  EXPECT_EQ(grown.height, 4);
  const int expected[] = {0, 0, 25, 75, 125, 175, 200, 200};
  for (int x = 0; x < 8; ++x)
    for (int y = 0; y < 4; ++y) EXPECT_EQ(color_at(grown, x, y).red, expected[x]) << x;
}

TEST(CanvasTest, FittingKeepsTheRatioAndFlatColours) {
  const Canvas canvas = filled(1920, 1080, kRed);
  for (const auto& [width, height, to_width, to_height] : {std::array{320, 320, 320, 180},
                                                           {1000, 90, 160, 90},
                                                           {1, 1, 1, 1},
                                                           {1920, 1080, 1920, 1080}}) {
    const Canvas result = fitted(canvas, width, height);
    EXPECT_EQ(result.width, to_width);
    EXPECT_EQ(result.height, to_height);
    EXPECT_EQ(count(result, kRed), to_width * to_height);
  }
  const Canvas thin = fitted(filled(1000, 1, kRed), 10, 10);
  EXPECT_EQ(thin.width, 10);
  EXPECT_EQ(thin.height, 1) << "no edge vanishes";
  const Canvas white = fitted(filled(17, 13, {255, 255, 255}), 7, 7);
  EXPECT_EQ(count(white, {255, 255, 255}), 7 * 5);
}

TEST(CanvasTest, NothingFitsIntoNothing) {
  EXPECT_ERROR(fitted(filled(3, 3, kRed), 0, 5), internal, "at least one pixel");
  EXPECT_ERROR(fitted(Canvas{}, 5, 5), internal, "at least one pixel");
  EXPECT_ERROR(filled(-1, 5, kRed), internal, "negative");
}

}  // namespace canvas_test
}  // namespace hydrascope::viz
