// The number of tokens that pass through a block together.
#pragma once

#include "kernels/linear/panel.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hydrascope::model::inference {

using kernels::linear::kStripRows;  // rows of the vectors' micro-kernels; even
/// Rows of a tile whose products run on AMX, other work in strips: whole pairs of 16 rows, because
/// a single 16 loads five tiles for four products.
inline constexpr std::int64_t kMatrixTileRows = 96;

/// Rows that would take the time for which a part of a product waits for its weights: a tile of 48 rows of D
/// = 768 loses 4 %, a tile of 36 rows in float32 10 %.
inline constexpr std::int64_t kWeightRows = 3;

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

struct TileShape {
  std::int64_t rows = 0;   ///< tokens per tile, a multiple of 6
  std::int64_t count = 0;  ///< tiles per image; the last one may be shorter
};

/// A tile's residual rows, normalised rows and MLP activation (row_bytes per token) take a third of
/// the L2 cache, the panels of weights that pass by the rest. A tile has at least some hundred
/// rows, or loading the weights would cost too much. There is at least one tile per thread if the
/// batch alone does not occupy all threads. Few tiles become a multiple of the threads, more or fewer,
/// whichever the team has done sooner. Rows are a multiple of `unit` (itself a multiple of 6), unless
/// strips of six rows let the last thread end sooner: a small image on many threads.
TileShape choose_tiles(std::int64_t num_tokens, std::int64_t batch, std::int64_t row_bytes,
                       std::int64_t l2_bytes, int threads, std::int64_t unit = kStripRows);

/// Tiles of an image whose products are cut by outputs as well (product_cut.h): each of them is mixed by
/// groups of heads, and together they occupy all threads.
TileShape choose_tiles_of_heads(std::int64_t num_tokens, std::int64_t batch, std::int64_t heads,
                                int threads);

/// Ascending: the begin of each tile (or window), from 0, and the end of the last.
using Borders = std::vector<std::int64_t>;
Borders even_borders(std::int64_t num_tokens, const TileShape& shape);

/// Tiles of about `shape.rows` tokens that end with windows: small windows share a tile, windows of
/// up to 384 tokens have one each. Keys of whole windows never leave the core's cache, which saves
/// 5 %. If the last thread ends later by more than that, windows are cut into like parts, so that
/// no two windows share a tile. Tiles are even if the parts, too, cost more than a second packing,
/// 3 %: few windows on many threads. Tiles are handed out from the last one on: the overview, often
/// the largest, comes first.
Borders window_borders(const Borders& windows, const TileShape& shape, std::int64_t batch,
                       int threads);

/// Rows times all outputs until the last thread has done its tiles; to be compared with ProductCut::time.
double time_of_tiles(const Borders& tiles, std::int64_t batch, int threads);

/// The tokens of an image, and how they are cut.
struct Extent {
  std::int64_t num_tokens = 0;
  Borders borders;  ///< begins and end of the tiles
  [[nodiscard]] std::int64_t num_tiles() const { return std::ssize(borders) - 1; }
  [[nodiscard]] std::int64_t most_rows() const {
    std::int64_t most = 0;
    for (std::size_t i = 1; i < borders.size(); ++i)
      most = std::max(most, borders[i] - borders[i - 1]);
    return most;
  }
  /// Tiles that hold the first `count` tokens.
  [[nodiscard]] std::int64_t tiles_before(std::int64_t count) const {
    return std::ranges::lower_bound(borders, count) - borders.begin();
  }
};

/// Rows first .. first + rows of image `image`.
struct Tile {
  std::int64_t image = 0;
  std::int64_t index = 0;
  std::int64_t first = 0;
  std::int64_t rows = 0;
  /// The rows that are among the image's first `count` tokens, at the tile's begin.
  [[nodiscard]] std::int64_t rows_before(std::int64_t count) const {
    return std::clamp<std::int64_t>(count - first, 0, rows);
  }
};
/// Tiles of all images of a batch in order.
inline Tile tile_of(std::int64_t item, const Extent& extent) {
  const std::int64_t index = item % extent.num_tiles();
  const auto border = extent.borders.begin() + index;
  return {item / extent.num_tiles(), index, border[0], border[1] - border[0]};
}

}  // namespace hydrascope::model::inference
