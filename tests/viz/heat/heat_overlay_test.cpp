#include "viz/heat/heat_overlay.h"

#include "tests/error_matchers.h"
#include "tests/viz/heat/cell_at.h"
#include "tests/viz/picture/pixel_colors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

namespace hydrascope::viz {
namespace heat_overlay_test {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr Color kGrey{100, 100, 100};
constexpr Color kDimmed{60, 60, 60};

Canvas grey(const Placement& placement) {
  return filled(static_cast<int>(placement.horizontal.picture),
                static_cast<int>(placement.vertical.picture), kGrey);
}

HeatMap constant(const Placement& placement, float value) {
  return {
      placement.vertical.cells, placement.horizontal.cells,
      std::vector<float>(
          static_cast<std::size_t>(placement.vertical.cells * placement.horizontal.cells), value)};
}

OverlayStyle opaque(const char* colormap = "inferno") {
  OverlayStyle style;
  style.colormap = find_colormap_or_null(colormap);
  style.alpha = 1;
  return style;
}

struct Case {
  std::string name;
  Placement placement;
};

/// The steps of the evaluation transforms on a picture, along both edges.
const Case kCases[] = {
    {"square", {Axis::whole(64, 4), Axis::whole(64, 4)}},
    {"not_square", {Axis::whole(48, 3), Axis::whole(112, 7)}},
    // The shorter edge to 40, the middle 32 cut.
    {"crop", {{60, 40, 4, 32, 32, 4}, {97, 64, 16, 32, 32, 4}}},
    {"enlarged_crop", {{13, 40, 4, 32, 32, 4}, {17, 52, 10, 32, 32, 4}}},
    {"squash", {{61, 32, 0, 32, 32, 4}, {107, 32, 0, 32, 32, 4}}},
    // The longer edge to 32, the shorter one in the middle of it.
    {"border", {{40, 20, -6, 32, 32, 4}, {64, 32, 0, 32, 32, 4}}},
    {"pad", {{45, 45, 0, 45, 48, 6}, {75, 75, 0, 75, 80, 10}}},
    {"cut_to_patches", {{45, 45, 2, 40, 40, 5}, {75, 75, 1, 72, 72, 9}}},
    {"finer_than_pixels", {Axis::whole(5, 7), Axis::whole(3, 8)}},
    {"uneven_cells", {{50, 33, 0, 33, 33, 7}, {41, 29, 2, 25, 27, 5}}},
};

class HeatOverlayPlacementTest : public ::testing::TestWithParam<Case> {};

/// The place of a pixel's centre, in cells.
double cells_to(const Axis& axis, std::int64_t pixel) {
  return ((static_cast<double>(pixel) + 0.5) * static_cast<double>(axis.resized) /
              static_cast<double>(axis.picture) -
          static_cast<double>(axis.window_start)) *
         static_cast<double>(axis.cells) / static_cast<double>(axis.output);
}

/// Keys' cubic convolution has no heat beyond one cell from the middle of a hot one; the finer grid that it is
/// drawn on adds a fifth of a cell.
TEST_P(HeatOverlayPlacementTest, AHotCellCoversThePixelsWhoseCentresLieInIt) {
  const Placement& placement = GetParam().placement;
  const OverlayStyle style = opaque();
  std::int64_t covered = 0;
  for (std::int64_t row = 0; row < placement.vertical.cells; ++row) {
    for (std::int64_t column = 0; column < placement.horizontal.cells; ++column) {
      HeatMap map = constant(placement, 0);
      map.values[static_cast<std::size_t>(row * map.columns + column)] = 1;
      Canvas picture = grey(placement);
      draw_heat(picture, map, {0, 1}, placement, style);
      for (std::int64_t y = 0; y < picture.height; ++y) {
        for (std::int64_t x = 0; x < picture.width; ++x) {
          const std::int64_t cell_row = cell_at(placement.vertical, y);
          const std::int64_t cell_column = cell_at(placement.horizontal, x);
          const Color found = color_at(picture, x, y);
          if (cell_row < 0 || cell_column < 0) {
            ASSERT_EQ(found, kDimmed) << "row " << y << ", column " << x;
            continue;
          }
          const double away = std::max(
              std::abs(cells_to(placement.vertical, y) - static_cast<double>(row) - 0.5),
              std::abs(cells_to(placement.horizontal, x) - static_cast<double>(column) - 0.5));
          const bool is_hot = cell_row == row && cell_column == column;
          if (is_hot) {
            ASSERT_FALSE(found == kGrey) << "row " << y << ", column " << x;
          } else if (away > 1.3) {
            ASSERT_EQ(found, kGrey)
                << "cell " << row << ", " << column << " at row " << y << ", column " << x;
          }
          covered += is_hot ? 1 : 0;
        }
      }
    }
  }
  const SeenRange rows = seen(placement.vertical);
  const SeenRange columns = seen(placement.horizontal);
  EXPECT_EQ(covered, (rows.end - rows.begin) * (columns.end - columns.begin))
      << "every pixel that is seen lies in one cell";
}

TEST_P(HeatOverlayPlacementTest, HeatIsLinearWhereItGrowsEvenly) {
  const Placement& placement = GetParam().placement;
  const OverlayStyle style = opaque("viridis");
  for (const bool is_across : {true, false}) {
    const Axis& axis = is_across ? placement.horizontal : placement.vertical;
    // Heat that grows by 1 a cell: at grid coordinate u it is u - 1/2.
    HeatMap map = constant(placement, 0);
    for (std::size_t i = 0; i < map.values.size(); ++i) {
      const auto columns = static_cast<std::size_t>(map.columns);
      map.values[i] = static_cast<float>(is_across ? i % columns : i / columns);
    }
    const auto last = static_cast<double>(axis.cells - 1);
    Canvas picture = grey(placement);
    draw_heat(picture, map, {0, static_cast<float>(last)}, placement, style);
    for (std::int64_t y = 0; y < picture.height; ++y) {
      for (std::int64_t x = 0; x < picture.width; ++x) {
        if (cell_at(placement.vertical, y) < 0 || cell_at(placement.horizontal, x) < 0) {
          ASSERT_EQ(color_at(picture, x, y), kDimmed);
          continue;
        }
        const double cell = cells_to(axis, is_across ? x : y);
        // The edge holds its value, which bends what is less than two cells from it.
        if (cell < 2 || cell > static_cast<double>(axis.cells) - 2) continue;
        const double share = (cell - 0.5) / last;
        const auto i = static_cast<std::size_t>(std::min(255 * share, 254.0));
        const Color from = style.colormap->color(i);
        const Color to = style.colormap->color(i + 1);
        const double green =
            from.green + (to.green - from.green) * (255 * share - static_cast<double>(i));
        const double shown = kGrey.green + (green - kGrey.green) * share;
        ASSERT_NEAR(color_at(picture, x, y).green, shown, 0.6) << "row " << y << ", column " << x;
      }
    }
  }
}

TEST_P(HeatOverlayPlacementTest, TheFrameLiesAroundWhatIsSeenAndOverNoneOfIt) {
  const Placement& placement = GetParam().placement;
  const SeenRange rows = seen(placement.vertical);
  const SeenRange columns = seen(placement.horizontal);
  for (const int thickness : {1, 3}) {
    Canvas picture = grey(placement);
    frame_seen(picture, placement, thickness);
    for (std::int64_t y = 0; y < picture.height; ++y) {
      for (std::int64_t x = 0; x < picture.width; ++x) {
        const std::int64_t outside =
            std::max({rows.begin - y, y - rows.end + 1, columns.begin - x, x - columns.end + 1});
        const bool is_line = outside > 0 && outside <= thickness;
        ASSERT_EQ(color_at(picture, x, y) == kGrey, !is_line) << y << ", " << x;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Placements, HeatOverlayPlacementTest, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

TEST(HeatOverlayTest, AlphaIsTheShareOfTheColour) {
  const Placement placement = kCases[0].placement;
  OverlayStyle style = opaque();
  style.alpha = 0.25;
  Canvas picture = grey(placement);
  draw_heat(picture, constant(placement, 1), {0, 1}, placement, style);
  const Color hot = style.colormap->color(255);
  EXPECT_EQ(color_at(picture, 9, 9).red, std::lround(75 + 0.25 * hot.red));
  EXPECT_EQ(color_at(picture, 9, 9).blue, std::lround(75 + 0.25 * hot.blue));
}

TEST(HeatOverlayTest, ColdCellsShowThePicture) {
  const Placement placement{Axis::whole(9, 1), Axis::whole(27, 3)};
  OverlayStyle style = opaque();
  Canvas picture = grey(placement);
  draw_heat(picture, {1, 3, {0, 0.5F, 1}}, {0, 1}, placement, style);
  EXPECT_EQ(color_at(picture, 1, 1), kGrey);
  EXPECT_EQ(color_at(picture, 26, 1), style.colormap->color(255));
  EXPECT_FALSE(color_at(picture, 13, 1) == kGrey);

  style = opaque("blue-orange");
  picture = grey(placement);
  draw_heat(picture, {1, 3, {-1, 0, 1}}, {-1, 1}, placement, style);
  EXPECT_EQ(color_at(picture, 0, 1), style.colormap->color(0));
  EXPECT_EQ(color_at(picture, 13, 1), kGrey);
  EXPECT_EQ(color_at(picture, 26, 1), style.colormap->color(255));
}

TEST(HeatOverlayTest, NanShowsThePictureAndInfinityAnExtreme) {
  const Placement placement{Axis::whole(8, 1), Axis::whole(24, 3)};
  const float infinite = std::numeric_limits<float>::infinity();
  for (const char* colormap : {"inferno", "blue-orange"}) {
    const OverlayStyle style = opaque(colormap);
    Canvas picture = grey(placement);
    draw_heat(picture, {1, 3, {-infinite, kNan, infinite}}, {-1, 1}, placement, style);
    EXPECT_EQ(color_at(picture, 0, 0),
              style.colormap->diverging ? style.colormap->color(0) : kGrey);
    EXPECT_EQ(color_at(picture, 12, 4), kGrey);
    EXPECT_EQ(color_at(picture, 23, 7), style.colormap->color(255));
  }
}

TEST(HeatOverlayTest, AMapOfOneValueShowsThePicture) {
  const Placement placement = kCases[0].placement;
  for (const float value : {0.0F, 3e8F}) {
    for (const char* colormap : {"inferno", "blue-orange"}) {
      Canvas picture = grey(placement);
      draw_heat(picture, constant(placement, value), {value, value}, placement, opaque(colormap));
      EXPECT_EQ(color_at(picture, 5, 5), kGrey) << colormap;
    }
  }
}

TEST(HeatOverlayTest, WhatDoesNotFitTogetherIsRefused) {
  const Placement placement = kCases[0].placement;
  Canvas picture = grey(placement);
  HeatMap map = constant(placement, 0);
  EXPECT_ERROR(draw_heat(picture, map, {0, 1}, placement, OverlayStyle{}), internal, "colour map");
  map.values.pop_back();
  EXPECT_ERROR(draw_heat(picture, map, {0, 1}, placement, opaque()), internal,
               "expected a map of 4 x 4", "15 values");
  picture.width = 63;
  EXPECT_ERROR(draw_heat(picture, constant(placement, 0), {0, 1}, placement, opaque()), internal,
               "expected a picture of 64 x 64, found 64 x 63");
}

}  // namespace heat_overlay_test
}  // namespace hydrascope::viz
