// Prefix tokens and averages over cells of the patch grid: the short sequences of Nystromformer and
// of Linformer's pooling form.
#pragma once

#include "model/attention/attention.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hydrascope::model {

/// x (B, H, N, d) -> (B, H, num_prefix + cells, d). The patches are averaged over a grid of about
/// `num_cells` cells with the aspect ratio of a square, never finer than the patches.
at::Tensor pool_patches(const at::Tensor& x, const TokenGrid& grid, std::int64_t num_cells);

/// The transpose: weights on the short sequence (B, H, n, num_prefix + cells) -> the weights
/// (B, H, n, N) that they put on the tokens. No gradient.
at::Tensor unpool_patches(const at::Tensor& weights, const TokenGrid& grid, std::int64_t num_cells);

}  // namespace hydrascope::model
