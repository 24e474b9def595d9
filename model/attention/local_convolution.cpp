#include "model/attention/local_convolution.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

namespace hydrascope::model {
namespace {

using at::Tensor;

/// A grid of patches and the token of its first one.
struct Plane {
  std::int64_t first;
  std::int64_t rows;
  std::int64_t columns;
  [[nodiscard]] std::int64_t count() const { return rows * columns; }
};

std::vector<Plane> planes_of(const TokenGrid& grid) {
  std::vector<Plane> planes;
  if (grid.num_patches() > 0) planes.push_back({grid.num_prefix, grid.rows, grid.columns});
  if (grid.num_overview() > 0) {
    planes.push_back(
        {grid.num_prefix + grid.num_patches(), grid.overview_rows, grid.overview_columns});
  }
  return planes;
}

/// The tokens of a plane of x (B, N, D) as a picture (B, D, rows, columns).
Tensor picture_of(const Tensor& x, const Plane& plane) {
  return x.narrow(1, plane.first, plane.count())
      .unflatten(1, {plane.rows, plane.columns})
      .permute({0, 3, 1, 2});
}

}  // namespace

Tensor local_convolution(const Tensor& x, const Tensor& weight, const TokenGrid& grid) {
  const std::int64_t dim = x.size(2);
  std::vector<Tensor> parts;
  if (grid.num_prefix > 0) parts.push_back(at::zeros_like(x.narrow(1, 0, grid.num_prefix)));
  for (const Plane& plane : planes_of(grid)) {
    const Tensor y =
        at::conv2d(picture_of(x, plane), weight.unsqueeze(1), {}, 1, weight.size(2) / 2, 1, dim);
    parts.push_back(y.flatten(2).transpose(1, 2));
  }
  return at::cat(parts, 1);
}

Tensor neighbouring_values(const Tensor& x, std::int64_t size, const TokenGrid& grid) {
  const std::int64_t batch = x.size(0);
  const std::int64_t dim = x.size(2);
  std::vector<Tensor> parts{x.new_zeros({batch, grid.num_prefix, dim, size * size})};
  for (const Plane& plane : planes_of(grid)) {
    const Tensor columns = at::im2col(picture_of(x, plane).contiguous(), {size, size}, {1, 1},
                                      {size / 2, size / 2}, {1, 1});  // (B, D s^2, patches)
    parts.push_back(columns.unflatten(1, {dim, size * size}).permute({0, 3, 1, 2}));
  }
  return at::cat(parts, 1);
}

Tensor local_convolution_reference(const Tensor& x, const Tensor& weight, const TokenGrid& grid) {
  return (neighbouring_values(x, weight.size(2), grid) * weight.flatten(1)).sum(-1);
}

std::vector<Neighbours> neighbours_of(std::int64_t query, const Tensor& weight,
                                      const TokenGrid& grid) {
  const std::int64_t reach = weight.size(2) / 2;
  std::vector<Neighbours> runs;
  for (const Plane& plane : planes_of(grid)) {
    const std::int64_t patch = query - plane.first;
    if (patch < 0 || patch >= plane.count()) continue;
    const std::int64_t row = patch / plane.columns;
    const std::int64_t column = patch % plane.columns;
    const std::int64_t left = std::max<std::int64_t>(0, column - reach);
    const std::int64_t count = std::min(plane.columns - 1, column + reach) - left + 1;
    for (std::int64_t r = std::max<std::int64_t>(0, row - reach);
         r <= std::min(plane.rows - 1, row + reach); ++r) {
      runs.push_back(
          {plane.first + r * plane.columns + left, weight.select(1, r - row + reach)
                                                       .narrow(1, left - column + reach, count)
                                                       .transpose(0, 1)});
    }
  }
  return runs;
}

}  // namespace hydrascope::model
