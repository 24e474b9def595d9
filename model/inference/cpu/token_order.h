// The order in which the CPU plan keeps the patches of a picture.
#pragma once

#include "model/attention/token_grid.h"

#include <cstdint>
#include <vector>

namespace hydrascope::model::inference {

/// The patches as they follow each other in the sequence, behind the prefix tokens: window after
/// window, in raster order of the windows, each in row-major order; then the overview's patches as
/// one more window. Tokens are counted without the prefix.
struct TokenOrder {
  /// Patches that lie side by side both in the sequence and in the picture or its overview. Numbers
  /// are in row-major order, first through the picture, then through the overview.
  struct Run {
    std::int64_t token = 0;
    std::int64_t patch = 0;
    std::int64_t count = 0;
  };
  std::vector<Run> runs;              ///< by token
  std::vector<std::int64_t> windows;  ///< the first token of each, and the end of the last
};

/// Windows are the balanced intervals (model/attention/balanced_intervals.h) of both axes, none
/// longer than `window`, which is at least 1x1; the grid's own extent gives row-major order.
TokenOrder token_order(const TokenGrid& grid, const GridExtent& window);

}  // namespace hydrascope::model::inference
