// Prefix tokens and averages over cells of the patch grid: the short sequences of Nystromformer and
// of Linformer's pooling form.
#pragma once

#include "model/attention/attention.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hydrascope::model {

/// About `num_cells` cells of a grid, with the aspect ratio of a square and never finer than it.
GridExtent cells_of(const GridExtent& grid, std::int64_t num_cells);

/// A cell's value from its patches, feature by feature.
enum class PoolBy { average, maximum };

/// x (..., N, d) -> (..., coarse(grid, edge).num_patches(), d): the patches by cells of `edge` x `edge`.
/// Cells at the far edges may be smaller. Nothing else of x is in the result.
at::Tensor pool_cells(const at::Tensor& x, const TokenGrid& grid, std::int64_t edge,
                      PoolBy by = PoolBy::average);

/// x (B, H, N, d) -> (B, H, num_prefix + cells, d). The patches are pooled over a grid of about
/// `num_cells` cells.
at::Tensor pool_patches(const at::Tensor& x, const TokenGrid& grid, std::int64_t num_cells,
                        PoolBy by = PoolBy::average);

/// The transpose of averages: weights on the short sequence (B, H, n, num_prefix + cells) -> the weights
/// (B, H, n, N) that they put on the tokens. No gradient.
at::Tensor unpool_patches(const at::Tensor& weights, const TokenGrid& grid, std::int64_t num_cells);

/// The tokens' weights (H, N, 1) by a kernel (H, s, s) that is laid over every cell. A patch takes
/// the kernel's value at its place in the cell; tokens that lie in no cell take one.
at::Tensor cell_weights(const at::Tensor& kernel, const TokenGrid& grid, std::int64_t num_cells);

}  // namespace hydrascope::model
