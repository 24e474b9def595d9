// The pixels that a test looks at on a canvas.
#pragma once

#include "viz/picture/canvas.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::viz {

inline Color color_at(const Canvas& canvas, std::int64_t x, std::int64_t y) {
  const auto i = static_cast<std::size_t>((y * canvas.width + x) * 3);
  return {canvas.rgb[i], canvas.rgb[i + 1], canvas.rgb[i + 2]};
}

/// How many pixels `wanted` holds for.
template <class Wanted>
int count_pixels(const Canvas& canvas, Wanted wanted) {
  int count = 0;
  for (int y = 0; y < canvas.height; ++y)
    for (int x = 0; x < canvas.width; ++x) count += wanted(color_at(canvas, x, y)) ? 1 : 0;
  return count;
}

}  // namespace hydrascope::viz
