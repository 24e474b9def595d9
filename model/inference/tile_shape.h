// How many tokens pass through a block together.
#pragma once

#include <cstdint>

namespace hydrascope::model::inference {

struct TileShape {
  std::int64_t rows = 0;   ///< tokens a tile, a multiple of 6 (the micro-kernel's rows; even)
  std::int64_t count = 0;  ///< tiles an image; the last one may be shorter
};

/// A tile's residual rows, its normalised rows and its MLP activation (row_bytes a token) take a
/// third of the L2 cache, the panels of weights that pass by the rest; at least some hundred rows,
/// which the weights' passing must pay for. At least one tile a thread where the batch alone does
/// not occupy them.
TileShape choose_tiles(std::int64_t num_tokens, std::int64_t batch, std::int64_t row_bytes,
                       std::int64_t l2_bytes, int threads);

}  // namespace hydrascope::model::inference
