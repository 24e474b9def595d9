// Patterns of whole tiles of the patch grid: all patches of a tile see the same patches
// (mechanisms/sparse/fixed.cpp, blockwise.cpp, bigbird.cpp).
#pragma once

#include "model/attention/balanced_intervals.h"
#include "model/attention/sparse/sparse_softmax.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace hydrascope::model {

/// The patch grid cut into tiles of at most `size`, numbered in row-major order, as are patches.
class Tiles {
 public:
  Tiles(const TokenGrid& grid, const GridExtent& size)
      : rows_{grid.rows, size.rows}, columns_{grid.columns, size.columns} {}
  [[nodiscard]] std::int64_t count() const { return rows_.count() * columns_.count(); }
  [[nodiscard]] GridExtent extent() const { return {rows_.count(), columns_.count()}; }
  /// Patches of tile t in increasing order.
  [[nodiscard]] std::vector<std::int64_t> patches(std::int64_t t) const;
  /// The `count` patches nearest to the tile's centre, or all, in increasing order. Among equally
  /// near patches the first wins.
  [[nodiscard]] std::vector<std::int64_t> central_patches(std::int64_t t, std::int64_t count) const;

 private:
  BalancedIntervals rows_;
  BalancedIntervals columns_;
};

/// The patches that the patches of tile t see, each once.
using KeysOfTile = std::function<std::vector<std::int64_t>(std::int64_t t)>;

/// `keys_of` is asked once for a grid; the function that it returns refers to the grid's tiles.
std::unique_ptr<KeyPattern> tile_pattern(const GridExtent& size,
                                         std::function<KeysOfTile(const Tiles& tiles)> keys_of);

}  // namespace hydrascope::model
