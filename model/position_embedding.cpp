#include "model/position_embedding.h"

#include "kernels/error.h"

#include <ATen/ATen.h>

namespace hydrascope::model {

at::Tensor resample_pos_embed(const at::Tensor& pos_embed, std::int64_t num_prefix,
                              std::int64_t old_rows, std::int64_t old_columns, std::int64_t rows,
                              std::int64_t columns, PosInterp interpolation) {
  const std::int64_t expected = num_prefix + old_rows * old_columns;
  if (pos_embed.dim() != 3 || pos_embed.size(0) != 1 || pos_embed.size(1) != expected) {
    throw Error(
        ErrorCode::internal,
        "expected (1, " + std::to_string(expected) + ", D), found " + c10::str(pos_embed.sizes()),
        "pos_embed");
  }
  if (rows == old_rows && columns == old_columns) return pos_embed;
  const std::int64_t dim = pos_embed.size(2);
  const at::Tensor grid = pos_embed.slice(1, num_prefix)
                              .to(at::kFloat)
                              .reshape({1, old_rows, old_columns, dim})
                              .permute({0, 3, 1, 2});
  const std::array<std::int64_t, 2> size{rows, columns};
  constexpr bool kAlignCorners = false;
  const at::Tensor resized =
      interpolation == PosInterp::timm
          ? at::_upsample_bicubic2d_aa(grid, size, kAlignCorners, std::nullopt, std::nullopt)
          : at::upsample_bicubic2d(grid, size, kAlignCorners, std::nullopt, std::nullopt);
  const at::Tensor patches =
      resized.permute({0, 2, 3, 1}).reshape({1, rows * columns, dim}).to(pos_embed.dtype());
  if (num_prefix == 0) return patches;
  return at::cat({pos_embed.slice(1, 0, num_prefix), patches}, 1);
}

}  // namespace hydrascope::model
