// Pictures, heat and colours for the tests of overlay.h, and their comparison
// with the twin.
#pragma once

#include "kernels/overlay/overlay.h"
#include "tests/kernels/fills.h"
#include "tests/kernels/overlay/overlay_reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::kernels::test {

/// `cells` over `span` pixels from the picture's edge on: all of it, or more with padding.
constexpr overlay::Edge edge_from_corner(std::int64_t pixels, std::int64_t cells,
                                         std::int64_t span) {
  return {pixels, cells, cells, 0, span, 0, pixels};
}

struct OverlayCase {
  std::int64_t height;
  std::int64_t width;
  std::int64_t heat_rows;
  std::int64_t heat_columns;
  std::int64_t more_height = 0;  ///< of the span, behind the picture
  std::int64_t more_width = 0;
  overlay::Opacity opacity = overlay::Opacity::heat;
  float alpha = 0.6F;
  std::int64_t gap = 5;     ///< bytes between rows; a multiple of 4 with widths of 4 keeps words
  std::int64_t offset = 0;  ///< bytes before the picture and before y
  bool nan = true;          ///< some cells are NaN
  bool placed = false;      ///< a crop of a resized picture, not from the corner

  [[nodiscard]] overlay::Edge vertical() const {
    return edge(height, heat_rows, more_height, height - height / 4, height / 8);
  }
  [[nodiscard]] overlay::Edge horizontal() const {
    return edge(width, heat_columns, more_width, 5 * width / 3, -3);
  }

 private:
  /// Placed: resized to `resized` pixels and cut or padded so that the grid begins at `window`;
  /// cells of 5 of those pixels.
  [[nodiscard]] overlay::Edge edge(std::int64_t pixels, std::int64_t cells, std::int64_t more,
                                   std::int64_t resized, std::int64_t window) const {
    if (!placed) return edge_from_corner(pixels, cells, pixels + more);
    return {
        pixels, cells, resized, 2 * window * pixels, 5 * pixels, pixels / 9, pixels - pixels / 5};
  }
};

inline std::string name(const OverlayCase& c) {
  return std::to_string(c.height) + "x" + std::to_string(c.width) + " under " +
         std::to_string(c.heat_rows) + "x" + std::to_string(c.heat_columns) + " + " +
         std::to_string(c.more_height) + "," + std::to_string(c.more_width) + " gap " +
         std::to_string(c.gap) + " offset " + std::to_string(c.offset) +
         (c.opacity == overlay::Opacity::heat ? " by heat" : " by deviation") +
         (c.placed ? " placed" : "");
}

/// All that an overlay reads, on the host.
struct OverlayInput {
  explicit OverlayInput(const OverlayCase& c)
      : stride(3 * c.width + c.gap),
        picture(static_cast<std::size_t>(c.offset + c.height * stride)),
        heat_stride(c.heat_columns + 2),
        heat(static_cast<std::size_t>(c.heat_rows * heat_stride),
             std::numeric_limits<float>::infinity()),
        colors(768) {
    std::mt19937 random(1);
    for (std::uint8_t& byte : picture) byte = static_cast<std::uint8_t>(random());
    std::vector<float> cells(static_cast<std::size_t>(c.heat_rows * c.heat_columns));
    fill(cells, Fill::normal, 2);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      cells[i] = std::clamp(0.4F + 0.4F * cells[i], 0.0F, 1.0F);
      if (c.nan && i % 7 == 3) cells[i] = std::numeric_limits<float>::quiet_NaN();
      if (i % 11 == 5) cells[i] = i % 2 == 0 ? 1 : 0;
      const auto at = static_cast<std::int64_t>(i);
      heat[static_cast<std::size_t>(at / c.heat_columns * heat_stride + at % c.heat_columns)] =
          cells[i];
    }
    // Neighbours differ by up to 64, the most that the header's promise covers.
    for (std::size_t channel = 0; channel < 3; ++channel) {
      int value = 100;
      for (std::size_t i = 0; i < 256; ++i) {
        value = std::clamp(value + static_cast<int>(random() % 129) - 64, 0, 255);
        colors[3 * i + channel] = static_cast<std::uint8_t>(value);
      }
    }
  }

  /// With null y.
  [[nodiscard]] overlay::OverlayParams params(const OverlayCase& c) const {
    return {picture.data() + c.offset,
            stride,
            c.vertical(),
            c.horizontal(),
            heat.data(),
            heat_stride,
            colors.data(),
            c.opacity,
            c.alpha,
            0.35F,
            nullptr,
            stride};
  }

  std::int64_t stride;
  std::vector<std::uint8_t> picture;
  std::int64_t heat_stride;
  std::vector<float> heat;  ///< infinity between rows: blended in, it would show
  std::vector<std::uint8_t> colors;
};

/// `found`: the bytes of y with offset and gaps. Those must be `around(i)` still, the pixels the
/// twin's, rounded; either neighbour where the twin is within 0.01 of a half.
template <class Around>
void expect_overlay(const OverlayCase& c, const OverlayInput& input,
                    const overlay::OverlayParams& params, const std::vector<std::uint8_t>& found,
                    Around around) {
  const std::vector<double> expected = overlay::overlay_reference(params);
  std::size_t next = 0;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(found.size()); ++i) {
    const std::int64_t within = i - c.offset;
    const int value = found[static_cast<std::size_t>(i)];
    if (within < 0 || within % input.stride >= 3 * c.width) {
      ASSERT_EQ(value, around(static_cast<std::size_t>(i))) << "beside the rows, at " << i;
      continue;
    }
    const double exact = expected[next++];
    const bool either = std::abs(exact - std::floor(exact) - 0.5) < 0.01;
    const double wrong = std::abs(value - exact);
    ASSERT_TRUE(either ? wrong < 0.51 : wrong < 0.5)
        << "row " << within / input.stride << ", byte " << within % input.stride << ": found "
        << value << ", expected " << exact;
  }
  ASSERT_EQ(next, expected.size());
}

template <class Around>
void expect_overlay(const OverlayCase& c, const OverlayInput& input,
                    const std::vector<std::uint8_t>& found, Around around) {
  expect_overlay(c, input, input.params(c), found, around);
}

/// Sizes that no group of pixels and no grid divides.
inline std::vector<OverlayCase> overlay_cases() {
  std::vector<OverlayCase> cases;
  for (const auto opacity : {overlay::Opacity::heat, overlay::Opacity::deviation}) {
    const auto add = [&](OverlayCase c) {
      c.opacity = opacity;
      cases.push_back(c);
    };
    add({1, 1, 1, 1});
    add({1, 1, 3, 2});
    add({7, 5, 1, 1});
    add({2, 3, 5, 7});  // more cells than pixels
    add({16, 16, 16, 16});
    add({33, 31, 2, 3});
    add({48, 80, 3, 5, 0, 0});  // 16 pixels per cell
    add({45, 75, 3, 5, 0, 0});  // 15: centres of cells are centres of pixels
    add({43, 71, 3, 5, 5, 9});  // padded to whole patches
    add({9, 13, 4, 4, 0, 0});
    for (const std::int64_t width : {4, 8, 9, 10, 11, 100})
      for (const std::int64_t gap : {0, 4}) add({5, width, 3, 4, 0, 0, opacity, 0.6F, gap});
    add({5, 16, 3, 4, 0, 0, opacity, 0.6F, 0, 1});
    add({5, 16, 3, 4, 0, 0, opacity, 0.0F});
    add({5, 16, 3, 4, 0, 0, opacity, 1.0F});
    add({60, 60, 7, 6, 0, 0, opacity, 1.0F, 0, 0, false});
    for (const auto& [height, width] : {std::pair{48, 80}, {43, 71}, {9, 16}, {1, 2}})
      add({height, width, 5, 7, 0, 0, opacity, 0.6F, 0, 0, true, true});
  }
  return cases;
}

}  // namespace hydrascope::kernels::test
