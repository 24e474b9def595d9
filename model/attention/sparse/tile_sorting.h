// Tiles of the patch grid sorted by what they hold (mechanisms/sparse/sinkhorn.cpp says how).
#pragma once

#include "model/attention/token_grid.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hydrascope::model {

/// What lies in the place of each of T tiles. T is 0 where there is but one tile.
struct TileSorting {
  /// (T, m) int64 on the CPU: the patches of a tile's places. A tile that is smaller than others repeats
  /// its first row or column.
  at::Tensor patches;
  at::Tensor weights;  ///< S (B, H, T, T) of the compute type: how much of tile u lies in tile t

  /// The sorted tiles of x (B, H, N, .), one after the other: (B, H, T m, .), of x's type.
  [[nodiscard]] at::Tensor sorted(const at::Tensor& x, const TokenGrid& grid) const;
  /// What weights on sorted keys (B, H, n, T m) put on the tokens: (B, H, n, N).
  [[nodiscard]] at::Tensor unsorted(const at::Tensor& weights_of_keys, const TokenGrid& grid) const;
  /// Whether a sorted key lies in the tile of one of tokens first .. first + count: (count, T m) bool on
  /// the CPU.
  [[nodiscard]] at::Tensor seen_rows(const TokenGrid& grid, std::int64_t first,
                                     std::int64_t count) const;
};

/// By queries and keys (B, H, N, d) and W (H, d, d), in balanced tiles of at most `size`. Differentiable.
TileSorting sort_tiles(const at::Tensor& q, const at::Tensor& k, const at::Tensor& weight,
                       const TokenGrid& grid, const GridExtent& size, std::int64_t iterations,
                       double temperature);

}  // namespace hydrascope::model
