// Adaptive attention span (Sukhbaatar et al. 2019, Adaptive Attention Span in Transformers, arXiv
// 1905.07799, equations 4 to 6): each head learns how far it looks.
//   a_ij ~ m(x_ij) exp(q_i . k_j / sqrt(d)),    m(x) = clip((R + z - x) / R, 0, 1)
// x_ij is here the larger one of the distances in rows and in columns, so that a head sees a square of
// side 2 (z + R) at most, R = `ramp`; 0 to and from prefix tokens, which see all. Patches of an overview
// see each other. z = max |u| of each head, never above max, from u = 1 on: with max the training
// grid's longer side a softmax checkpoint keeps its function at its own size. dynamic=on: each
// query has its own z = max sigmoid(w . q_i + b), by head, with q in place of the paper's x.
// Training adds `penalty` times the heads' mean of |u|, or of sigmoid(b), to its loss.
#include "model/attention/attention.h"
#include "model/attention/pieces.h"
#include "model/attention/sparse/neighborhood_pattern.h"
#include "model/attention/sparse/softmax_sums.h"
#include "model/registry/mechanisms.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <vector>

namespace hydrascope::model {
namespace {

using at::Tensor;

const ExtentOption kMostSpan(
    "max", "largest span in patches, the longer one of two; 0: the training grid");
const NumberOption kRamp("ramp", "3", 0.1, 1024, "patches over which a span ends");
const SwitchOption kDynamic("dynamic", false, "every query has a span of its own");
const NumberOption kSpanPenalty("penalty", "0.02", 0, 1000, "weight of the spans in training");

double most_span(const MechanismOptions& options, const TokenGrid& training) {
  const GridExtent extent = kMostSpan(options, training);
  return static_cast<double>(std::max(extent.rows, extent.columns));
}

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

/// m of rows first .. first + count of the map: `spans` (., H, count or 1, 1) -> (., H, count, N), 1 in
/// rows of prefix tokens.
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

/// The image tokens' rows of the output, (B, image tokens, H * width of v): q, k, v (B, H, N, .), q and
/// k as `rule` turns them, `spans` of the image tokens (B or 1, H, image tokens or 1, 1). A head reads
/// the keys within its longest span alone.
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

class AdaptiveSpanMixer final : public TokenMixer {
 public:
  explicit AdaptiveSpanMixer(const TokenMixerArguments& arguments)
      : most_(most_span(arguments.options, arguments.training_grid)),
        ramp_(kRamp(arguments.options)),
        position_(arguments.position),
        penalty_(kSpanPenalty(arguments.options)) {
    if (kDynamic(arguments.options)) {
      weight_ = arguments.add_parameter("span.weight",
                                        at::zeros({arguments.num_heads, arguments.head_dim}));
      bias_ = arguments.add_parameter("span.bias", at::full({arguments.num_heads}, 4.0));
    } else {
      length_ = arguments.add_parameter("span.length", at::ones({arguments.num_heads}));
    }
  }

  Tensor mix(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
             Kernels kernels) override {
    if (kernels == Kernels::reference || grid.num_image_tokens() == 0)
      return mix_by_rows(q, k, v, grid);
    const PositionRule* rule = position_ && position_->changes_scores() ? position_.get() : nullptr;
    const Tensor queries = turned_by(position_.get(), q, grid);
    const Tensor keys = turned_by(position_.get(), k, grid);
    const Tensor spans = spans_of(q.slice(2, grid.num_prefix));
    const auto farthest =
        static_cast<double>(std::max({grid.rows, grid.columns, std::int64_t{1}}) - 1);
    if (rule == nullptr && grid.num_overview() == 0 && !wants_gradient({spans}) &&
        spans.min().item<double>() >= farthest)
      return merge_heads(at::scaled_dot_product_attention(queries, keys, v));
    const Tensor patches = mix_within_spans(queries, keys, v, grid, spans, ramp_, rule);
    if (grid.num_prefix == 0) return patches;
    return at::cat({mix_rows(q, k, v, grid, 0, grid.num_prefix), patches}, 1);
  }

  Tensor attention_rows(const Tensor& q, const Tensor& k, const TokenGrid& grid, std::int64_t first,
                        std::int64_t count) override {
    const Tensor rows = q.narrow(2, first, count);
    const Tensor scores = position_ ? position_->score_rows(rows, k, grid, first)
                                    : scaled_products(to_compute_type(rows), to_compute_type(k));
    const Tensor weights = span_weights(grid, spans_of(rows), ramp_, first, count);
    const Tensor seen =
        scores.masked_fill(weights.detach().eq(0), -std::numeric_limits<double>::infinity());
    const Tensor exponentials = (seen - seen.detach().amax(-1, true)).exp() * weights;
    return exponentials / exponentials.sum(-1, true);
  }

  [[nodiscard]] const PositionRule* position() const override { return position_.get(); }
  [[nodiscard]] Tensor penalty() const override {
    if (penalty_ == 0) return {};
    return penalty_ * (length_.defined() ? length_.abs() : bias_.sigmoid()).mean();
  }

 private:
  /// z for queries (B, H, n, d): (1, H, 1, 1) or (B, H, n, 1), in the type of the computation.
  [[nodiscard]] Tensor spans_of(const Tensor& q) const {
    const Tensor queries = to_compute_type(q);
    const auto of_heads = [&](const Tensor& x) {
      return x.to(queries.scalar_type()).view({1, x.size(0), -1, 1});
    };
    if (length_.defined()) return most_ * of_heads(length_).abs().clamp_max(1);
    return most_ * (queries.matmul(of_heads(weight_)) + of_heads(bias_)).sigmoid();
  }

  double most_;
  double ramp_;
  std::shared_ptr<const PositionRule> position_;
  double penalty_;
  Tensor length_;         ///< u (H)
  Tensor weight_, bias_;  ///< w (H, d) and b (H) of dynamic spans
};

MixerCost span_cost(const MixerSize& size, const MechanismOptions& options) {
  const double reach = most_span(options, size.training_grid) + kRamp(options);
  const std::int64_t window = 2 * static_cast<std::int64_t>(std::ceil(reach)) - 1;
  return sparse_cost(size, neighborhood_heads({{window, window}, 1, true}, size.num_heads, 0));
}

const MechanismRegistration kAdaptiveSpan(over_some_tokens({
    .name = "adaptive_span",
    .summary = "softmax attention whose heads learn how far they look, O(N D z^2)",
    .citation = "Sukhbaatar et al. 2019, Adaptive Attention Span in Transformers, arXiv 1905.07799",
    .options = {kMostSpan, kRamp, kDynamic, kSpanPenalty},
    .parameters = {{"span.length", "(H), with dynamic=off", "ones"},
                   {"span.weight", "(H, d), with dynamic=on", "zeros"},
                   {"span.bias", "(H), with dynamic=on", "4"}},
    .map_definition =
        "A_ij = m_ij exp(q_i k_j / sqrt(d)) / sum, m_ij from 1 within the head's span "
        "to 0 beyond it, 1 for prefix tokens; rows of prefix tokens over all",
    .cost = span_cost,
    .added_elements =
        [](const MixerSize& size, const MechanismOptions& options) {
          return static_cast<double>(kDynamic(options) ? size.embed_dim + size.num_heads
                                                       : size.num_heads);
        },
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      return std::make_unique<AdaptiveSpanMixer>(arguments);
    },
}));

}  // namespace
}  // namespace hydrascope::model
