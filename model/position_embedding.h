// Absolute position embedding at another grid than the one it was trained at.
#pragma once

#include "model/config/config.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hydrascope::model {

/// pos_embed (1, num_prefix + old_rows * old_columns, D) -> (1, num_prefix + rows * columns, D),
/// same dtype. Prefix tokens are untouched, and the same grid returns the tensor itself.
/// Interpolation computes in float32 with align_corners false; timm's and hf's differ when the grid
/// shrinks. Tiles are the balanced intervals of both axes that are no longer than the old grid,
/// each with the table's first entries (published for windows: Bolya et al. 2023, Window Attention
/// is Bugged, arXiv 2311.05613); an axis that shrinks is interpolated as timm does.
at::Tensor resample_pos_embed(const at::Tensor& pos_embed, std::int64_t num_prefix,
                              std::int64_t old_rows, std::int64_t old_columns, std::int64_t rows,
                              std::int64_t columns, PosInterp interpolation);

/// [sin row, sin column, cos row, cos column] of a grid's patches, D/4 frequencies 10000^(-n / (D/4))
/// each: (1, rows * columns, D), float32.
at::Tensor sincos_embedding(std::int64_t rows, std::int64_t columns, std::int64_t embed_dim);

/// The signal of a step, from 1: features 2j and 2j + 1 are sin and cos of step 10000^(-2j / D) (Dehghani et
/// al. 2019, arXiv 1807.03819, equations 6 and 7), (D), float32.
at::Tensor step_embedding(std::int64_t step, std::int64_t embed_dim);

/// A model's table (1, P, D) for the tokens of `grid`: prefix tokens unless `no_embed_class`,
/// patches as `pos_interp` says, and the overview's patches, interpolated as timm does. `pos_embed`
/// is the learned table or undefined. Without one prefix tokens have zeros; with `none` all tokens
/// have zeros.
at::Tensor position_embedding(const at::Tensor& pos_embed, const VitConfig& config,
                              const TokenGrid& grid);

/// The same for the table of a block's input (1, rows * columns of the training grid, D): entries
/// of the patches and of the overview of `grid`, (1, P, D).
at::Tensor layer_position_embedding(const at::Tensor& table, const VitConfig& config,
                                    const TokenGrid& grid);

/// The picture that the overview's patches are cut from: images (B, C, H, W), normalised -> (B, C,
/// rows x patch_size, columns x patch_size) of `grid`'s overview, bicubic with antialiasing.
at::Tensor overview_of(const at::Tensor& images, const TokenGrid& grid, std::int64_t patch_size);

}  // namespace hydrascope::model
