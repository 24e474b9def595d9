#include "viz/heat/placement.h"

#include <algorithm>

namespace hydrascope::viz {
namespace {

/// Rounded up; b > 0.
std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return a >= 0 ? (a + b - 1) / b : -(-a / b);
}

/// The first pixel whose centre lies at or after `position` of the window.
std::int64_t first_pixel(const Axis& axis, std::int64_t position) {
  const std::int64_t pixel =
      divide_up(2 * (axis.window_start + position) * axis.picture - axis.resized, 2 * axis.resized);
  return std::clamp<std::int64_t>(pixel, 0, axis.picture);
}

}  // namespace

SeenRange seen(const Axis& axis) {
  return {first_pixel(axis, 0), first_pixel(axis, std::min(axis.window, axis.output))};
}

}  // namespace hydrascope::viz
