#include "model/attention/sparse/soft_span.h"

#include "model/attention/pieces.h"
#include "model/attention/sparse/neighborhood_pattern.h"
#include "model/attention/sparse/softmax_sums.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace hydrascope::model {
namespace {

using at::Tensor;

/// Distance between the picture and its overview, which do not see each other.
constexpr double kOutOfReach = 1e9;

/// The larger one of the distances along both axes of patches (..., n) and (..., m): (..., n, m).
Tensor distances(const Tensor& queries, const Tensor& keys, std::int64_t num_columns) {
  const auto along = [&](const Tensor& of_queries, const Tensor& of_keys) {
    return (of_queries.unsqueeze(-1) - of_keys.unsqueeze(-2)).abs();
  };
  return at::maximum(along(queries.div(num_columns, "floor"), keys.div(num_columns, "floor")),
                     along(queries.remainder(num_columns), keys.remainder(num_columns)));
}

/// clip((ramp + z - x) / ramp, 0, 1).
Tensor soft_mask(const Tensor& spans, const Tensor& distance, double ramp) {
  return ((spans - distance.to(spans.options()) + ramp) / ramp).clamp(0, 1);
}

/// The groups of squares that reach so many patches in all directions.
std::vector<KeyGroups> groups_within(std::int64_t reach, const TokenGrid& grid) {
  const std::int64_t window = 2 * reach + 1;
  std::vector<KeyGroups> groups;
  if (grid.num_patches() > 0)
    groups = neighborhood_heads({{window, window}, 1, true}, 1, 0).front().pattern->passes(grid)[0];
  if (grid.num_overview() > 0) {
    const Tensor overview =
        at::arange(grid.num_patches(), grid.num_image_tokens(), at::kLong).unsqueeze(0);
    groups.push_back({overview, overview, {}});
  }
  return groups;
}

/// The sums of one head: q, k, v (B, image tokens, .), spans (B or 1, image tokens or 1, 1) -> (B,
/// image tokens, w + 2).
Tensor head_sums(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& spans,
                 const std::vector<KeyGroups>& all, double ramp, ScoredPairs scored) {
  const TokenGrid& grid = scored.pairs.grid;
  std::vector<Tensor> parts, order;
  for (const KeyGroups& groups : all) {
    const bool is_overview = groups.queries[0][0].item<std::int64_t>() >= grid.num_patches();
    parts.push_back(attend_in_pieces(
        q.unsqueeze(2), k.unsqueeze(2), v.unsqueeze(2), groups.queries, groups.keys, 3,
        [&](const Tensor& some_q, const Tensor& some_k, const Tensor& some_v, std::int64_t first,
            std::int64_t count) {
          const Tensor queries = groups.queries.narrow(0, first, count);
          const Tensor keys = groups.keys.narrow(0, first, count);
          scored.pairs.queries = queries + grid.num_prefix;
          scored.pairs.keys = keys + grid.num_prefix;
          const Tensor distance = is_overview ? at::zeros({1, 1, 1}, at::kLong)
                                              : distances(queries, keys, grid.columns);
          const Tensor of_queries =
              spans.size(1) == 1 ? spans.unsqueeze(1)
                                 : spans.index_select(1, queries.flatten().to(spans.device()))
                                       .unflatten(1, queries.sizes());
          return softmax_sums(some_q, some_k, some_v,
                              soft_mask(of_queries, distance, ramp).unsqueeze(2), scored);
        }));
    order.push_back(groups.queries.flatten());
  }
  return in_token_order(parts, order, grid.num_image_tokens()).squeeze(2);
}

}  // namespace

Tensor span_weights(const TokenGrid& grid, const Tensor& spans, double ramp, std::int64_t first,
                    std::int64_t count) {
  const std::int64_t overview = grid.num_prefix + grid.num_patches();
  const Tensor tokens = at::arange(grid.num_tokens(), at::kLong);
  const Tensor rows = tokens.narrow(0, first, count);
  const auto kind = [&](const Tensor& of) {  // 0: prefix, 1: picture, 2: overview
    return of.ge(grid.num_prefix).to(at::kLong) + of.ge(overview).to(at::kLong);
  };
  const Tensor of_rows = kind(rows).unsqueeze(1);
  const Tensor of_keys = kind(tokens).unsqueeze(0);
  const Tensor both_in_picture = of_rows.eq(1).logical_and(of_keys.eq(1));
  const Tensor apart = of_rows.add(of_keys).eq(3);
  Tensor distance = at::zeros({count, grid.num_tokens()}, at::kDouble);
  if (grid.num_patches() > 0) {
    const Tensor between =
        distances(rows - grid.num_prefix, tokens - grid.num_prefix, grid.columns);
    distance = at::where(both_in_picture, between.to(at::kDouble), distance);
  }
  return soft_mask(spans, distance.masked_fill(apart, kOutOfReach), ramp);
}

Tensor mix_within_spans(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                        const Tensor& spans, double ramp, const PositionRule* rule) {
  const auto patches = [&](const Tensor& x) { return x.slice(2, grid.num_prefix); };
  const Tensor longest = spans.detach().amax({0, 2, 3}).to(at::kCPU, at::kDouble);
  std::map<std::int64_t, std::vector<KeyGroups>> by_reach;
  std::vector<Tensor> heads;
  for (std::int64_t head = 0; head < q.size(1); ++head) {
    const double end = longest[head].item<double>() + ramp;
    // Patches at the very end have a weight of zero. A head whose span is NaN reads all.
    const std::int64_t side = std::max(grid.rows, grid.columns);
    const std::int64_t reach =
        end < static_cast<double>(side) ? static_cast<std::int64_t>(std::ceil(end)) - 1 : side;
    auto found = by_reach.find(reach);
    if (found == by_reach.end()) found = by_reach.emplace(reach, groups_within(reach, grid)).first;
    const auto of_head = [&](const Tensor& x) { return patches(x).select(1, head); };
    heads.push_back(head_sums(of_head(q), of_head(k), of_head(v), spans.select(1, head),
                              found->second, ramp, {rule, {grid, {}, {}, head}}));
  }
  std::vector<Tensor> sums{at::stack(heads, 1)};
  if (grid.num_prefix > 0) sums.push_back(prefix_sums(q, k, v, grid, rule));
  return merge_heads(merged_softmax(sums)).to(v.scalar_type());
}

}  // namespace hydrascope::model
