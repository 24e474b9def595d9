// Tiles of the patch grid sorted by their contents (equations: mechanisms/sparse/sinkhorn.cpp).
#pragma once

#include "model/attention/token_grid.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hydrascope::model {

/// The mixture of tiles in the place of each of T tiles. T is 0 if there is but one tile.
struct TileSorting {
  /// (T, m) int64 on the CPU: the patches of a tile's places. A tile that is smaller than others repeats
  /// its first row or column.
  at::Tensor patches;
  at::Tensor weights;  ///< S (B, H, T, T) of the compute type: how much of tile u lies in tile t

  /// The sorted tiles of x (B, H, N, .), one after the other: (B, H, T m, .), of x's type.
  [[nodiscard]] at::Tensor sorted(const at::Tensor& x, const TokenGrid& grid) const;
  /// Weights on sorted keys (B, H, n, T m) -> the weights (B, H, n, N) that they put on the tokens.
  [[nodiscard]] at::Tensor unsorted(const at::Tensor& weights_of_keys, const TokenGrid& grid) const;
  /// Whether a sorted key lies in the tile of one of tokens first .. first + count: (count, T m) bool on
  /// the CPU.
  [[nodiscard]] at::Tensor seen_rows(const TokenGrid& grid, std::int64_t first,
                                     std::int64_t count) const;
};

/// Sorts balanced tiles of at most `size`, by q, k (B, H, N, d) and W (H, d, d). Differentiable.
TileSorting sort_tiles(const at::Tensor& q, const at::Tensor& k, const at::Tensor& weight,
                       const TokenGrid& grid, const GridExtent& size, std::int64_t iterations,
                       double temperature);

}  // namespace hydrascope::model
