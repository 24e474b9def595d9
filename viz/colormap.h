// Perceptual colour tables: from numbers to colours.
#pragma once

#include "viz/canvas.h"

#include <array>
#include <string_view>
#include <vector>

namespace hydrascope::viz {

struct Colormap {
  std::string_view name;
  bool diverging = false;  ///< the middle entry is the neutral colour of 0
  std::array<std::uint8_t, 256 * 3> colors{};
};

/// viridis, inferno, magma, cividis, turbo, and a diverging one.
const std::vector<Colormap>& colormaps();
const Colormap* find_colormap_or_null(std::string_view name);
inline constexpr std::string_view kDefaultColormap = "inferno";
inline constexpr std::string_view kDefaultDivergingColormap = "blue-orange";

}  // namespace hydrascope::viz
