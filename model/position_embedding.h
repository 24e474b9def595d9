// Absolute position embedding at another grid than the one it was trained at.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hydrascope::model {

/// `--pos-interp`: bicubic with antialiasing (timm's resample_abs_pos_embed) or plain bicubic
/// (Hugging Face's interpolate_pos_encoding). Both with align_corners false; they differ when the
/// grid shrinks.
enum class PosInterp { timm, hf };

/// pos_embed (1, num_prefix + old_rows * old_columns, D) -> (1, num_prefix + rows * columns, D),
/// same dtype; computed in float32, prefix tokens untouched, returned as it is when the grid is the
/// same.
at::Tensor resample_pos_embed(const at::Tensor& pos_embed, std::int64_t num_prefix,
                              std::int64_t old_rows, std::int64_t old_columns, std::int64_t rows,
                              std::int64_t columns, PosInterp interpolation);

}  // namespace hydrascope::model
