// Exits without weights of their own. Behind a layer of VitConfig::exits the remaining blocks and the
// classifiers run on fewer tokens: each 2 x 2 patches of the picture become their mean, and the prefix and
// the overview stay as they are,
//   X'_(r, c) = mean of X_(2 r + i, 2 c + j), i and j in {0, 1}, within the grid.
// A block of a picture of many patches costs a quarter then. A picture that is not sure goes on with all
// of its patches as if nothing had been. Means of patches between blocks: Token Pooling (Marin et al. 2021,
// arXiv 2110.03860). The decision: CALM (Schuster et al. 2022, arXiv 2207.07061).
#pragma once

#include "model/attention/token_grid.h"

#include <ATen/core/Tensor.h>

namespace hydrascope::model {

/// Tokens (B, N, D) of `grid` -> (B, N', D) of `coarse(grid)`, row-major as in the modules.
at::Tensor coarse_tokens(const at::Tensor& tokens, const TokenGrid& grid);

}  // namespace hydrascope::model
