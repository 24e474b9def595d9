#include "kernels/overlay/overlay.h"

#include "kernels/error.h"
#include "kernels/overlay/sample_position.h"
#include "tests/kernels/overlay/overlay_case.h"
#include "tests/kernels/overlay/overlay_reference.h"

#include <gtest/gtest.h>

#include <functional>

namespace hydrascope::kernels::test {
namespace {

using overlay::Edge;
using overlay::Opacity;
using overlay::OverlayParams;

TEST(Overlay, EqualsTheEquationInAnyPartOfTheRows) {
  for (const OverlayCase& c : overlay_cases()) {
    SCOPED_TRACE(name(c));
    const OverlayInput input(c);
    OverlayParams p = input.params(c);
    std::vector<std::uint8_t> y(input.picture.size(), 0xff);
    p.y = y.data() + c.offset;
    const std::int64_t third = c.height / 3;
    overlay::overlay(p, third, c.height - third);
    overlay::overlay(p, 0, third);
    overlay::overlay(p, 0, 0);
    expect_overlay(c, input, y, [](std::size_t) { return 0xff; });
  }
}

TEST(Overlay, ThePictureMayBeWrittenInPlace) {
  for (const OverlayCase& c : overlay_cases()) {
    SCOPED_TRACE(name(c));
    const OverlayInput input(c);
    OverlayParams p = input.params(c);
    std::vector<std::uint8_t> y = input.picture;
    p.picture = p.y = y.data() + c.offset;
    overlay::overlay(p, 0, c.height);
    expect_overlay(c, input, y, [&](std::size_t i) { return input.picture[i]; });
  }
}

/// A picture of one colour under a row of cells, from black over grey to white.
struct Strip {
  Strip() : colors(768) {
    for (std::size_t i = 0; i < 768; ++i) colors[i] = static_cast<std::uint8_t>(i / 3);
  }
  /// The red channel of y.
  std::vector<int> drawn(const std::vector<float>& heat, std::int64_t width, Opacity opacity,
                         float alpha) {
    const std::vector<std::uint8_t> picture(static_cast<std::size_t>(3 * width), 100);
    std::vector<std::uint8_t> y(picture.size());
    const auto cells = static_cast<std::int64_t>(heat.size());
    overlay::overlay(
        {picture.data(), 3 * width, edge_from_corner(1, 1, 1), columns(width, cells), heat.data(),
         cells, colors.data(), opacity, alpha, 0.25F, y.data(), 3 * width},
        0, 1);
    std::vector<int> red;
    for (std::size_t i = 0; i < y.size(); i += 3) red.push_back(y[i]);
    return red;
  }
  std::vector<std::uint8_t> colors;
  std::function<Edge(std::int64_t, std::int64_t)> columns =
      [](std::int64_t width, std::int64_t cells) { return edge_from_corner(width, cells, width); };
};

TEST(Overlay, ByHand) {
  using Row = std::vector<int>;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Strip strip;
  // Half-pixel centres: pixels at -1/4, 1/4, 3/4, 5/4 of the way from cell to cell, clamped.
  EXPECT_EQ(strip.drawn({0, 1}, 4, Opacity::heat, 1), (Row{100, 91, 168, 255}));
  EXPECT_EQ(strip.drawn({0, 1}, 2, Opacity::heat, 0.5F), (Row{100, 178}));
  // A NaN leaves the picture wherever it has weight, and only there.
  EXPECT_EQ(strip.drawn({1, nan, 1}, 9, Opacity::heat, 1),
            (Row{255, 255, 100, 100, 100, 100, 100, 255, 255}));
}

TEST(Overlay, OpacityByDeviationShowsThePictureInTheMiddle) {
  Strip strip;
  EXPECT_EQ(strip.drawn({0, 0.25F, 0.5F, 1}, 4, Opacity::deviation, 1),
            (std::vector<int>{0, 82, 100, 255}));
}

TEST(Overlay, PixelsThatAreNotSeenAreDimmedWhateverTheHeat) {
  Strip strip;
  // Two cells over pixels 2 .. 6 of 8; 3 .. 6 are seen.
  strip.columns = [](std::int64_t width, std::int64_t cells) {
    return Edge{width, cells, 1, 4, 2, 3, 6};
  };
  using Row = std::vector<int>;
  // Outside of the grid's centres its outermost cells go on.
  EXPECT_EQ(strip.drawn({0, 1}, 8, Opacity::heat, 1), (Row{25, 25, 25, 91, 168, 255, 25, 25}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(strip.drawn({nan, 1}, 8, Opacity::heat, 1), (Row{25, 25, 25, 100, 100, 255, 25, 25}));
}

TEST(Overlay, PositionsAreExact) {
  for (const std::int32_t cells : {1, 2, 7, 14, 24}) {
    for (const std::int32_t span : {1, 2, 13, 224, 1080}) {
      const Edge edge = edge_from_corner(span, cells, span);
      for (std::int32_t pixel = 0; pixel < span; ++pixel) {
        const auto at = overlay::position(pixel, edge);
        const double exact =
            std::clamp((pixel + 0.5) * cells / span - 0.5, 0.0, static_cast<double>(cells - 1));
        ASSERT_NEAR(at.cell + static_cast<double>(at.weight), exact, 1e-6);
        ASSERT_TRUE(at.weight >= 0 && at.weight < 1 && (at.cell < cells - 1 || at.weight == 0));
      }
    }
  }
}

TEST(Overlay, PositionsOfTheLargestNumbersAreExact) {
  constexpr std::int64_t kMost = (std::int64_t{1} << 29) - 1;
  constexpr std::int64_t kUnits = std::int64_t{1} << 61;
  const Edge longest = edge_from_corner(kMost, 8, kMost);
  EXPECT_EQ(overlay::position(kMost - 1, longest).cell, 7);
  EXPECT_EQ(overlay::position(kMost / 2, longest).cell, 3);
  EXPECT_EQ(overlay::position(kMost / 2, longest).weight, 0.5F);
  // The centre of cell 3 lies between the centres of two pixels.
  EXPECT_EQ(overlay::position(std::int64_t{7} << 25, longest).cell, 3);
  EXPECT_EQ(overlay::position((std::int64_t{7} << 25) - 1, longest).cell, 2);
  // Steps of nearly 2^31 units, half a cell each, from far in front of the picture.
  const std::int64_t step = kUnits / 2 / (kMost + 1) - 1;
  const Edge fine{kMost, 64, step, -(kUnits - 1), kUnits / 4 - 1, 0, kMost};
  EXPECT_EQ(overlay::position(0, fine).cell, 1);
  EXPECT_EQ(overlay::position(kMost - 1, fine).cell, 3);
  const Edge behind{kMost, 64, step, kUnits - 1, kUnits / 4 - 1, 0, kMost};
  EXPECT_EQ(overlay::position(kMost - 1, behind).cell, 0);
}

TEST(Overlay, WhatCannotBeDrawnIsRefused) {
  const OverlayCase c{4, 4, 2, 2};
  const OverlayInput input(c);
  const auto refused = [&](auto change) {
    OverlayParams p = input.params(c);
    change(p);
    EXPECT_THROW(overlay::check(p), Error);
  };
  overlay::check(input.params(c));
  constexpr std::int64_t kMost = std::int64_t{1} << 61;
  refused([](OverlayParams& p) { p.vertical.cells = 0; });
  refused([](OverlayParams& p) { p.horizontal.cells = 0; });
  refused([](OverlayParams& p) { p.vertical.half_cell = 0; });
  refused([](OverlayParams& p) { p.vertical.step = 0; });
  refused([](OverlayParams& p) { p.vertical.pixels = -1; });
  refused([](OverlayParams& p) { p.horizontal.pixels = std::int64_t{1} << 29; });
  refused([](OverlayParams& p) { p.horizontal.half_cell = kMost / 2; });
  refused([](OverlayParams& p) { p.horizontal.step = kMost / 8; });
  refused([](OverlayParams& p) { p.horizontal.start = -kMost; });
  refused([](OverlayParams& p) { p.horizontal.start = kMost; });
  refused([](OverlayParams& p) { p.vertical.seen_begin = -1; });
  refused([](OverlayParams& p) { p.vertical.seen_begin = 4, p.vertical.seen_end = 3; });
  refused([](OverlayParams& p) { p.vertical.seen_end = 5; });
  refused([](OverlayParams& p) { p.alpha = 1.5F; });
  refused([](OverlayParams& p) { p.alpha = std::numeric_limits<float>::quiet_NaN(); });
  refused([](OverlayParams& p) { p.unseen_brightness = -0.5F; });
}

}  // namespace
}  // namespace hydrascope::kernels::test
