#include "model/position_embedding.h"

#include "kernels/error.h"
#include "model/attention/balanced_intervals.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <vector>

namespace hydrascope::model {
namespace {

/// x (1, old, ..) -> (1, length, ..) along `axis`: every interval begins at the first entry.
at::Tensor tiled(const at::Tensor& x, std::int64_t axis, std::int64_t length) {
  const BalancedIntervals intervals{length, x.size(axis)};
  std::vector<std::int64_t> entries;
  for (std::int64_t i = 0; i < length; ++i)
    entries.push_back(i - intervals.begin(intervals.holding(i)));
  return x.index_select(axis, at::tensor(entries, at::kLong).to(x.device()));
}

/// Resamples a table, `prefix` entries before the training grid's, for a grid and its overview.
at::Tensor table_at(const at::Tensor& table, std::int64_t prefix, const VitConfig& config,
                    const TokenGrid& grid) {
  const auto resampled = [&](std::int64_t rows, std::int64_t columns, PosInterp interpolation) {
    return resample_pos_embed(table, prefix, config.grid_rows(), config.grid_columns(), rows,
                              columns, interpolation);
  };
  const at::Tensor native = resampled(grid.rows, grid.columns, config.pos_interp);
  if (grid.num_overview() == 0) return native;
  return at::cat(
      {native,
       resampled(grid.overview_rows, grid.overview_columns, PosInterp::timm).slice(1, prefix)},
      1);
}

}  // namespace

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
  if (interpolation == PosInterp::tile && (rows > old_rows || columns > old_columns)) {
    const std::int64_t tile_rows = std::min(rows, old_rows);
    const std::int64_t tile_columns = std::min(columns, old_columns);
    const at::Tensor tile = resample_pos_embed(pos_embed, num_prefix, old_rows, old_columns,
                                               tile_rows, tile_columns, interpolation);
    const at::Tensor patches = tile.slice(1, num_prefix).unflatten(1, {tile_rows, tile_columns});
    return at::cat(
        {tile.slice(1, 0, num_prefix), tiled(tiled(patches, 1, rows), 2, columns).flatten(1, 2)},
        1);
  }
  const std::int64_t dim = pos_embed.size(2);
  const at::Tensor grid = pos_embed.slice(1, num_prefix)
                              .to(at::kFloat)
                              .reshape({1, old_rows, old_columns, dim})
                              .permute({0, 3, 1, 2});
  const std::array<std::int64_t, 2> size{rows, columns};
  constexpr bool kAlignCorners = false;
  const at::Tensor resized =
      interpolation == PosInterp::hf
          ? at::upsample_bicubic2d(grid, size, kAlignCorners, std::nullopt, std::nullopt)
          : at::_upsample_bicubic2d_aa(grid, size, kAlignCorners, std::nullopt, std::nullopt);
  const at::Tensor patches =
      resized.permute({0, 2, 3, 1}).reshape({1, rows * columns, dim}).to(pos_embed.dtype());
  if (num_prefix == 0) return patches;
  return at::cat({pos_embed.slice(1, 0, num_prefix), patches}, 1);
}

at::Tensor sincos_embedding(std::int64_t rows, std::int64_t columns, std::int64_t embed_dim) {
  constexpr double kTemperature = 10000;
  const at::Tensor exponent = at::arange(embed_dim / 4, at::kDouble) / (embed_dim / 4);
  const at::Tensor frequency = at::pow(1 / kTemperature, exponent);
  const auto angle = [&](std::int64_t length) {
    return at::arange(length, at::kDouble).unsqueeze(1) * frequency;
  };
  const at::Tensor of_row = angle(rows).unsqueeze(1).expand({-1, columns, -1});
  const at::Tensor of_column = angle(columns).unsqueeze(0).expand({rows, -1, -1});
  return at::cat({of_row.sin(), of_column.sin(), of_row.cos(), of_column.cos()}, 2)
      .flatten(0, 1)
      .unsqueeze(0)
      .to(at::kFloat);
}

at::Tensor step_embedding(std::int64_t step, std::int64_t embed_dim) {
  constexpr double kLongest = 10000;
  const at::Tensor feature = at::arange(embed_dim, at::kDouble);
  const at::Tensor even = 2 * feature.div(2, "floor");
  const at::Tensor angle =
      static_cast<double>(step) * at::pow(kLongest, -even / static_cast<double>(embed_dim));
  return at::where(feature == even, angle.sin(), angle.cos()).to(at::kFloat);
}

at::Tensor position_embedding(const at::Tensor& pos_embed, const VitConfig& config,
                              const TokenGrid& grid) {
  const std::int64_t prefix = config.no_embed_class ? 0 : config.num_prefix_tokens();
  if (!has_table(config.pos_embed)) {
    std::vector<at::Tensor> parts{at::zeros({1, prefix, config.embed_dim})};
    const auto add = [&](std::int64_t rows, std::int64_t columns) {
      parts.push_back(config.pos_embed == PosEmbed::none
                          ? at::zeros({1, rows * columns, config.embed_dim})
                          : sincos_embedding(rows, columns, config.embed_dim));
    };
    add(grid.rows, grid.columns);
    if (grid.num_overview() > 0) add(grid.overview_rows, grid.overview_columns);
    return at::cat(parts, 1);
  }
  return table_at(pos_embed, prefix, config, grid);
}

at::Tensor layer_position_embedding(const at::Tensor& table, const VitConfig& config,
                                    const TokenGrid& grid) {
  return table_at(table, 0, config, grid);
}

at::Tensor overview_of(const at::Tensor& images, const TokenGrid& grid, std::int64_t patch_size) {
  const std::array<std::int64_t, 2> size{grid.overview_rows * patch_size,
                                         grid.overview_columns * patch_size};
  // LibTorch has no such interpolation of half types on every device.
  return at::_upsample_bicubic2d_aa(images.to(at::promote_types(images.scalar_type(), at::kFloat)),
                                    size, /*align_corners=*/false)
      .to(images.scalar_type());
}

}  // namespace hydrascope::model
