// Where a pixel's centre lies on the grid of heat, in integers: exact, so that the CPU kernel, the
// CUDA kernel and the twin meet the same cells, and cells of weight 0 where the mathematics has
// them.
#pragma once

#include <cstdint>

namespace hydrascope::kernels::overlay {

/// The value is (1 - weight) cell + weight (cell + 1); weight 0: the next cell must not be read.
struct Position {
  std::int32_t cell;
  float weight;
};

/// Of pixel `pixel` along a side of `span` pixels and `cells` cells; both sides' product with
/// `pixel` + 1 below 2^29. constexpr: nvcc then lets device code call it.
constexpr Position position(bool bilinear, std::int32_t pixel, std::int32_t span,
                            std::int32_t cells) {
  // In units of half a pixel of the grid: (pixel + 1/2) cells / span = centre / (2 span).
  const std::int32_t unit = 2 * span;
  const std::int32_t centre = (2 * pixel + 1) * cells;
  // Cell centres lie half a cell behind their edges.
  const std::int32_t from = bilinear ? centre - span : centre;
  if (from <= 0) return {0, 0.0F};
  const std::int32_t cell = from / unit;
  if (cell >= cells - 1) return {cells - 1, 0.0F};
  const float weight =
      bilinear ? static_cast<float>(from - cell * unit) / static_cast<float>(unit) : 0.0F;
  return {cell, weight};
}

}  // namespace hydrascope::kernels::overlay
