// Perceptual colour tables: from numbers to colours.
#pragma once

#include "viz/picture/canvas.h"

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

namespace hydrascope::viz {

struct Colormap {
  std::string_view name;
  bool diverging = false;  ///< the middle entry is the neutral colour of 0
  std::array<std::uint8_t, 256 * 3> colors{};
  [[nodiscard]] Color color(std::size_t i) const {
    return {colors[3 * i], colors[3 * i + 1], colors[3 * i + 2]};
  }
};

/// viridis, inferno, magma, cividis, turbo, and a diverging one.
const std::vector<Colormap>& colormaps();
const Colormap* find_colormap_or_null(std::string_view name);
inline constexpr std::string_view kDefaultColormap = "inferno";
inline constexpr std::string_view kDefaultDivergingColormap = "blue-orange";

}  // namespace hydrascope::viz
