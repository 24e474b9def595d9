// The cells of a grid that pixels lie in, by the arithmetic of viz/heat/placement.h.
#pragma once

#include "viz/heat/placement.h"

#include <algorithm>
#include <cstdint>

namespace hydrascope::viz {

/// The cell that the centre of pixel `pixel` lies in; -1 where the model did not see it.
inline std::int64_t cell_at(const Axis& axis, std::int64_t pixel) {
  const SeenRange range = seen(axis);
  if (pixel < range.begin || pixel >= range.end) return -1;
  // In units of half a picture pixel of the window.
  const std::int64_t centre = (2 * pixel + 1) * axis.resized - 2 * axis.window_start * axis.picture;
  return std::min(centre * axis.cells / (2 * axis.picture * axis.output), axis.cells - 1);
}

}  // namespace hydrascope::viz
