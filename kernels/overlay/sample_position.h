// The place of a pixel's centre on the grid of heat, in integers: exact, so that the kernel and its
// twin meet the same cells and have weights of 0 in the same places as the mathematics.
#pragma once

#include "kernels/overlay/overlay.h"

#include <cstdint>

namespace hydrascope::kernels::overlay {

/// The value is (1 - weight) cell + weight (cell + 1); weight 0: the next cell must not be read.
struct Position {
  std::int32_t cell;
  float weight;
};

/// The position of `pixel` along an edge that overlay.h allows.
constexpr Position position(std::int64_t pixel, const Edge& edge) {
  // Cell centres lie half a cell after their edges.
  const std::int64_t from = (2 * pixel + 1) * edge.step - edge.start - edge.half_cell;
  if (from <= 0) return {0, 0.0F};
  const auto units = static_cast<std::uint64_t>(from);
  const std::uint64_t of_cell = 2 * static_cast<std::uint64_t>(edge.half_cell);
  const std::uint64_t cell = units / of_cell;
  if (cell >= static_cast<std::uint64_t>(edge.cells - 1))
    return {static_cast<std::int32_t>(edge.cells - 1), 0.0F};
  const float weight = static_cast<float>(units - cell * of_cell) / static_cast<float>(of_cell);
  return {static_cast<std::int32_t>(cell), weight};
}

constexpr bool is_seen(const Edge& edge, std::int64_t pixel) {
  return pixel >= edge.seen_begin && pixel < edge.seen_end;
}

}  // namespace hydrascope::kernels::overlay
