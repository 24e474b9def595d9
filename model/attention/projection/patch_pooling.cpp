#include "model/attention/projection/patch_pooling.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <vector>

namespace hydrascope::model {

GridExtent cells_of(const GridExtent& grid, std::int64_t num_cells) {
  const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(num_cells)));
  std::int64_t rows = std::clamp<std::int64_t>(side, 1, grid.rows);
  const std::int64_t columns = std::clamp<std::int64_t>(num_cells / rows, 1, grid.columns);
  // If the grid has fewer columns than the square, its rows make up for them.
  rows = std::clamp<std::int64_t>(num_cells / columns, 1, grid.rows);
  return {rows, columns};
}

at::Tensor pool_cells(const at::Tensor& x, const TokenGrid& grid, std::int64_t edge, PoolBy by) {
  const at::Tensor image = x.narrow(-2, grid.num_prefix, grid.num_patches())
                               .transpose(-2, -1)
                               .reshape({-1, x.size(-1), grid.rows, grid.columns});
  const at::Tensor cells =
      by == PoolBy::average
          ? at::avg_pool2d(image, edge, edge, 0, /*ceil_mode=*/true, /*count_include_pad=*/false)
          : at::max_pool2d(image, edge, edge, 0, 1, /*ceil_mode=*/true);
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape[shape.size() - 2] = cells.size(2) * cells.size(3);
  return cells.flatten(2).transpose(1, 2).reshape(shape);
}

at::Tensor pool_patches(const at::Tensor& x, const TokenGrid& grid, std::int64_t num_cells,
                        PoolBy by) {
  const std::int64_t patches = grid.rows * grid.columns;
  if (patches == 0 || num_cells >= patches) return x;
  const auto [rows, columns] = cells_of({grid.rows, grid.columns}, num_cells);
  const at::Tensor image = x.narrow(2, grid.num_prefix, patches)
                               .transpose(-2, -1)
                               .reshape({x.size(0), -1, grid.rows, grid.columns});
  const std::array<std::int64_t, 2> size{rows, columns};
  const at::Tensor pooled = by == PoolBy::average
                                ? at::adaptive_avg_pool2d(image, size)
                                : std::get<0>(at::adaptive_max_pool2d(image, size));
  const at::Tensor cells =
      pooled.view({x.size(0), x.size(1), x.size(3), rows * columns}).transpose(-2, -1);
  return at::cat({x.narrow(2, 0, grid.num_prefix), cells}, 2);
}

at::Tensor unpool_patches(const at::Tensor& weights, const TokenGrid& grid,
                          std::int64_t num_cells) {
  const std::int64_t patches = grid.rows * grid.columns;
  if (patches == 0 || num_cells >= patches) return weights;
  const auto [rows, columns] = cells_of({grid.rows, grid.columns}, num_cells);
  const at::Tensor cells = weights.narrow(3, grid.num_prefix, rows * columns)
                               .reshape({weights.size(0), -1, rows, columns});
  const at::Tensor image =
      at::empty({cells.size(0), cells.size(1), grid.rows, grid.columns}, cells.options());
  // The transpose of an average is its backward pass.
  const at::Tensor spread = at::_adaptive_avg_pool2d_backward(cells, image)
                                .view({weights.size(0), weights.size(1), -1, patches});
  return at::cat({weights.narrow(3, 0, grid.num_prefix), spread}, 3);
}

at::Tensor cell_weights(const at::Tensor& kernel, const TokenGrid& grid, std::int64_t num_cells) {
  const GridExtent cells = cells_of({grid.rows, grid.columns}, num_cells);
  const auto places = [&](std::int64_t patches, std::int64_t of_cells) {
    const at::Tensor in_cell = (at::arange(patches, at::kLong) * of_cells).remainder(patches);
    return (in_cell * kernel.size(1)).div(patches, "floor").to(kernel.device());
  };
  const at::Tensor of_patches = kernel.index_select(1, places(grid.rows, cells.rows))
                                    .index_select(2, places(grid.columns, cells.columns))
                                    .flatten(1);
  const auto ones = [&](std::int64_t count) {
    return at::ones({kernel.size(0), count}, kernel.options());
  };
  return at::cat({ones(grid.num_prefix), of_patches, ones(grid.num_overview())}, 1).unsqueeze(2);
}

}  // namespace hydrascope::model
