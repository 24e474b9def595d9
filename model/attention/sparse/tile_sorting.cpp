#include "model/attention/sparse/tile_sorting.h"

#include "model/attention/balanced_intervals.h"
#include "model/attention/compute_type.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <vector>

namespace hydrascope::model {
namespace {

using at::Tensor;

/// The positions of an axis by interval and place in it: (intervals, places) int64.
Tensor places_along(const BalancedIntervals& axis) {
  const std::int64_t count = axis.count();
  const std::int64_t most = (axis.length + count - 1) / count;
  const Tensor begins = (at::arange(count + 1, at::kLong) * axis.length).div(count, "floor");
  const Tensor sizes = begins.slice(0, 1) - begins.slice(0, 0, count);
  const Tensor places = (at::arange(most, at::kLong) * sizes.unsqueeze(1)).div(most, "floor");
  return begins.slice(0, 0, count).unsqueeze(1) + places;
}

Tensor patches_of_places(const TokenGrid& grid, const GridExtent& size) {
  const Tensor none = at::empty({0, 0}, at::kLong);
  if (grid.num_patches() == 0) return none;
  const Tensor rows = places_along({grid.rows, size.rows});
  const Tensor columns = places_along({grid.columns, size.columns});
  const std::int64_t num_tiles = rows.size(0) * columns.size(0);
  if (num_tiles == 1) return none;
  return (rows.view({-1, 1, rows.size(1), 1}) * grid.columns +
          columns.view({1, -1, 1, columns.size(1)}))
      .reshape({num_tiles, -1});
}

/// x (B, H, N, .) by tile and place: (B, H, T, m, .).
Tensor tiles_of(const Tensor& x, const Tensor& patches, const TokenGrid& grid) {
  const Tensor tokens = (patches.flatten() + grid.num_prefix).to(x.device());
  return x.index_select(2, tokens).unflatten(2, patches.sizes());
}

}  // namespace

Tensor TileSorting::sorted(const Tensor& x, const TokenGrid& grid) const {
  if (patches.numel() == 0) return x.narrow(2, 0, 0);
  const Tensor tiles = tiles_of(x, patches, grid).to(weights.scalar_type());
  return weights.matmul(tiles.flatten(3)).view(tiles.sizes()).flatten(2, 3).to(x.scalar_type());
}

Tensor TileSorting::unsorted(const Tensor& weights_of_keys, const TokenGrid& grid) const {
  std::vector<std::int64_t> sizes = weights_of_keys.sizes().vec();
  sizes.back() = grid.num_tokens();
  const Tensor none = at::zeros(sizes, weights_of_keys.options());
  if (patches.numel() == 0) return none;
  const Tensor of_places = weights_of_keys.unflatten(3, patches.sizes());
  const Tensor spread = weights.transpose(2, 3).unsqueeze(2).matmul(of_places).flatten(3);
  return none.index_add(3, (patches.flatten() + grid.num_prefix).to(spread.device()), spread);
}

Tensor TileSorting::seen_rows(const TokenGrid& grid, std::int64_t first, std::int64_t count) const {
  const Tensor of_tile = at::zeros({grid.num_tokens(), patches.size(0)}, at::kBool);
  of_tile.slice(0, grid.num_prefix).scatter_(0, patches.t(), true);
  return of_tile.narrow(0, first, count).repeat_interleave(patches.size(1), 1);
}

TileSorting sort_tiles(const Tensor& q, const Tensor& k, const Tensor& weight,
                       const TokenGrid& grid, const GridExtent& size, std::int64_t iterations,
                       double temperature) {
  TileSorting sorting{patches_of_places(grid, size), {}};
  if (sorting.patches.numel() == 0) return sorting;
  const auto means = [&](const Tensor& x) {
    return tiles_of(to_compute_type(x), sorting.patches, grid).mean(3);
  };
  const double scale = 1 / (std::sqrt(static_cast<double>(q.size(3))) * temperature);
  const Tensor of_queries = means(q);
  Tensor scores = of_queries.matmul(weight.to(of_queries.scalar_type()) * scale)
                      .matmul(means(k).transpose(2, 3));
  const Tensor is_own = at::eye(scores.size(2), scores.options().dtype(at::kBool));
  scores = scores.masked_fill(is_own, -std::numeric_limits<double>::infinity());
  for (std::int64_t i = 0; i < iterations; ++i) {
    scores = scores - scores.logsumexp(2, /*keepdim=*/true);
    scores = scores - scores.logsumexp(3, /*keepdim=*/true);
  }
  sorting.weights = scores.exp();
  return sorting;
}

}  // namespace hydrascope::model
