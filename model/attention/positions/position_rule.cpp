#include "model/attention/positions/position_rule.h"

#include "kernels/error.h"
#include "model/attention/compute_type.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace hydrascope::model {
namespace {

using at::Tensor;

struct TokenPlaces {
  Tensor rows;
  Tensor columns;
  Tensor is_patch;
};

TokenPlaces places_of(const Tensor& tokens, const TokenGrid& grid) {
  const Tensor patch = (tokens - grid.num_prefix).clamp_min(0);
  const std::int64_t columns = std::max<std::int64_t>(grid.columns, 1);
  return {patch.div(columns, "floor"), patch.remainder(columns), tokens >= grid.num_prefix};
}

/// index (G, n, m) for every image and head: (B, G, h, n, m).
Tensor expanded(const Tensor& index, std::int64_t batch, std::int64_t heads,
                const c10::Device& device) {
  return index.to(device).unsqueeze(1).unsqueeze(0).expand({batch, -1, heads, -1, -1});
}

[[noreturn]] void refuse_values() {
  throw Error(ErrorCode::internal, "the rule adds nothing to values", "rel_pos");
}

}  // namespace

TokenPairs pairs_of_rows(const TokenGrid& grid, std::int64_t first, std::int64_t count) {
  return {grid, at::arange(first, first + count, at::kLong).unsqueeze(0),
          at::arange(grid.num_tokens(), at::kLong).unsqueeze(0)};
}

PatchOffsets offsets(const TokenPairs& pairs) {
  const TokenPlaces query = places_of(pairs.queries, pairs.grid);
  const TokenPlaces key = places_of(pairs.keys, pairs.grid);
  const Tensor patches = query.is_patch.unsqueeze(2).logical_and(key.is_patch.unsqueeze(1));
  const auto between = [&](const Tensor& of_query, const Tensor& of_key) {
    return (of_query.unsqueeze(2) - of_key.unsqueeze(1)).mul_(patches);
  };
  return {between(query.rows, key.rows), between(query.columns, key.columns), patches};
}

Tensor distances(const TokenPairs& pairs, at::ScalarType type) {
  const PatchOffsets offset = offsets(pairs);
  return (offset.rows.square() + offset.columns.square()).to(type).sqrt();
}

Tensor products_with_entries(const Tensor& x, const Tensor& table, const Tensor& index) {
  const Tensor products = x.matmul(table.to(x.scalar_type()).transpose(-2, -1));
  return products.gather(-1, expanded(index, x.size(0), x.size(2), x.device()));
}

Tensor sums_of_entries(const Tensor& weights, const Tensor& table, const Tensor& index,
                       const Tensor& patches) {
  std::vector<std::int64_t> size = weights.sizes().vec();
  size.back() = table.size(-2);
  const Tensor seen = weights * patches.to(weights.device()).unsqueeze(1);
  const Tensor marginals =
      at::zeros(size, weights.options())
          .scatter_add(-1, expanded(index, weights.size(0), weights.size(2), weights.device()),
                       seen);
  return marginals.matmul(table.to(weights.scalar_type()));
}

Tensor scaled_products(const Tensor& q, const Tensor& k) {
  return (q * (1 / std::sqrt(static_cast<double>(q.size(-1))))).matmul(k.transpose(-2, -1));
}

Tensor turned_by(const PositionRule* rule, const Tensor& x, const TokenGrid& grid) {
  return rule == nullptr ? x : rule->turned(to_compute_type(x), grid, 0).to(x.scalar_type());
}

Tensor ScoredPairs::scores(const Tensor& q, const Tensor& k) const {
  const Tensor queries = to_compute_type(q);
  const Tensor keys = to_compute_type(k);
  return rule == nullptr ? scaled_products(queries, keys) : rule->scores(queries, keys, pairs);
}

Tensor ScoredPairs::mixed(const Tensor& weights, const Tensor& v, std::int64_t head_dim) const {
  const Tensor y = weights.matmul(v.to(weights.scalar_type()));
  if (rule == nullptr || !rule->adds_values() || v.size(-1) != head_dim) return y;
  return y + rule->added_values(weights, pairs);
}

Tensor PositionRule::turned(const Tensor& x, const TokenGrid&, std::int64_t) const { return x; }

std::optional<Rotation> PositionRule::rotation(const TokenGrid&, std::int64_t) const {
  return std::nullopt;
}

Tensor PositionRule::scores(const Tensor& q, const Tensor& k, const TokenPairs&) const {
  return scaled_products(q, k);
}

Tensor PositionRule::added_values(const Tensor&, const TokenPairs&) const { refuse_values(); }
Tensor PositionRule::value_products(const Tensor&, const TokenPairs&) const { refuse_values(); }

Tensor PositionRule::score_rows(const Tensor& q, const Tensor& k, const TokenGrid& grid,
                                std::int64_t first) const {
  return scores(turned(to_compute_type(q), grid, first).unsqueeze(1),
                turned(to_compute_type(k), grid, 0).unsqueeze(1),
                pairs_of_rows(grid, first, q.size(2)))
      .squeeze(1);
}

}  // namespace hydrascope::model
