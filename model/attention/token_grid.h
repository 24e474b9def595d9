// The order of tokens in a sequence, and weights by a token's place in it.
#pragma once

#include "kernels/token_weights.h"

#include <cstdint>

namespace hydrascope::model {

/// Patches along the two axes of a grid.
struct GridExtent {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  friend bool operator==(const GridExtent&, const GridExtent&) = default;
};

/// The order of tokens: `num_prefix` tokens, then `rows` x `columns` patches in row-major order,
/// then the patches of the overview, a reduced copy of the whole picture, in row-major order, too.
struct TokenGrid {
  std::int64_t num_prefix = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t overview_rows = 0;  ///< 0: there is no overview
  std::int64_t overview_columns = 0;
  std::int64_t num_registers = 0;  ///< the last of the prefix tokens
  [[nodiscard]] std::int64_t num_patches() const { return rows * columns; }
  [[nodiscard]] std::int64_t num_overview() const { return overview_rows * overview_columns; }
  /// All but the prefix.
  [[nodiscard]] std::int64_t num_image_tokens() const { return num_patches() + num_overview(); }
  [[nodiscard]] std::int64_t num_tokens() const { return num_prefix + num_image_tokens(); }
};

/// Patches along a side of a patch of the coarse grid (model/coarse_exit.h).
inline constexpr std::int64_t kCoarsePatches = 2;
/// The grid of cells of `edge` x `edge` patches, fewer at the lower and right edge.
inline TokenGrid coarse(TokenGrid grid, std::int64_t edge = kCoarsePatches) {
  grid.rows = (grid.rows + edge - 1) / edge;
  grid.columns = (grid.columns + edge - 1) / edge;
  return grid;
}

using kernels::TokenWeights;

}  // namespace hydrascope::model
