#include "model/attention/sparse_softmax.h"

#include "model/attention/logit_scale.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace hydrascope::model {
namespace {

using at::Tensor;

/// Copies of keys and values, and rows of the map, are made in pieces of this size.
constexpr std::int64_t kPieceBytes = std::int64_t{64} << 20;

std::int64_t num_patches(const TokenGrid& grid) { return grid.rows * grid.columns; }

/// Is it softmax over all tokens?
bool covers(const std::vector<KeyGroups>& groups, const TokenGrid& grid) {
  const std::int64_t patches = num_patches(grid);
  if (patches == 0) return true;
  const KeyGroups& first = groups.front();
  return first.queries.numel() == patches && first.keys.numel() == patches &&
         first.queries.size(0) == 1 && !first.sees.defined();
}

/// Tokens of x (B, N, h, d) by index (G, n) -> (B G, h, n, d).
Tensor grouped(const Tensor& x, const Tensor& index) {
  return x.index_select(1, index.flatten())
      .unflatten(1, {index.size(0), index.size(1)})
      .flatten(0, 1)
      .transpose(1, 2);
}

/// One head range's patches: q, k, v (B, N, h, d) -> (B, patches, h, width of v).
Tensor mix_patches(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                   const std::vector<KeyGroups>& all) {
  const std::int64_t prefix = grid.num_prefix;
  const std::int64_t heads = q.size(2);
  const Tensor prefix_tokens = at::arange(prefix, at::kLong);
  std::vector<Tensor> parts;
  std::vector<Tensor> order;
  for (const KeyGroups& groups : all) {
    const std::int64_t n = groups.queries.size(1);
    const std::int64_t m = prefix + groups.keys.size(1);
    const Tensor queries = (groups.queries + prefix).to(q.device());
    const Tensor keys =
        at::cat({prefix_tokens.expand({groups.keys.size(0), -1}), groups.keys + prefix}, 1)
            .to(q.device());
    Tensor sees;
    if (groups.sees.defined())
      sees = at::cat({at::ones({n, prefix}, at::kBool), groups.sees}, 1).to(q.device());
    // Where v has another width than q (rollouts send one column) LibTorch makes the weights.
    const std::int64_t weights = v.size(3) == q.size(3) ? 0 : n * m;
    const std::int64_t group_bytes = q.size(0) * heads *
                                     (2 * n * q.size(3) + m * (q.size(3) + v.size(3)) + weights) *
                                     static_cast<std::int64_t>(q.element_size());
    const std::int64_t most = std::max<std::int64_t>(1, kPieceBytes / group_bytes);
    for (std::int64_t first = 0; first < queries.size(0); first += most) {
      const std::int64_t count = std::min(most, queries.size(0) - first);
      const Tensor of_keys = keys.narrow(0, first, count);
      const Tensor y = at::scaled_dot_product_attention(
          grouped(q, queries.narrow(0, first, count)), grouped(k, of_keys), grouped(v, of_keys),
          sees.defined() ? std::optional<Tensor>(sees) : std::nullopt);
      parts.push_back(y.transpose(1, 2).unflatten(0, {q.size(0), count}).flatten(1, 2));
    }
    order.push_back(groups.queries.flatten());
  }
  // Where each patch is among the parts.
  const Tensor places = at::cat(order);
  const Tensor place_of =
      at::empty_like(places).scatter_(0, places, at::arange(places.numel(), at::kLong));
  return at::cat(parts, 1).index_select(1, place_of.to(q.device()));
}

}  // namespace

std::vector<MechanismOption> prefix_row_options() {
  return {
      logit_scale_option(),
      switch_option("prefix_balance", false,
                    "prefix tokens weigh ln(patches / patches in training) more for each other, "
                    "so that their share does not shrink with the picture")};
}

SparseSoftmaxMixer::SparseSoftmaxMixer(std::vector<HeadPattern> heads, const TokenGrid& training,
                                       MechanismOptions options)
    : heads_(std::move(heads)), training_(training), options_(std::move(options)) {}

double SparseSoftmaxMixer::prefix_balance(const TokenGrid& grid) const {
  if (!options_.on("prefix_balance") || num_patches(grid) == 0 || num_patches(training_) == 0)
    return 0;
  return std::log(static_cast<double>(num_patches(grid)) /
                  static_cast<double>(num_patches(training_)));
}

Tensor SparseSoftmaxMixer::prefix_bias(const TokenGrid& grid, const at::TensorOptions& like) const {
  const double balance = prefix_balance(grid);
  if (balance == 0) return {};
  Tensor bias = at::zeros({1, grid.num_tokens()}, like);
  bias.narrow(1, 0, grid.num_prefix).fill_(balance);
  return bias;
}

Tensor SparseSoftmaxMixer::sees(const TokenGrid& grid, std::int64_t first,
                                std::int64_t count) const {
  const std::int64_t prefix_rows = std::clamp<std::int64_t>(grid.num_prefix - first, 0, count);
  std::vector<Tensor> heads;
  for (const HeadPattern& head : heads_) {
    Tensor one = at::ones({1, count, grid.num_tokens()}, at::kBool);
    if (prefix_rows < count) {
      one.select(0, 0)
          .narrow(0, prefix_rows, count - prefix_rows)
          .narrow(1, grid.num_prefix, num_patches(grid))
          .copy_(
              head.pattern->rows(grid, first + prefix_rows - grid.num_prefix, count - prefix_rows));
    }
    if (heads_.size() == 1) return one;
    heads.push_back(one.expand({head.num_heads, -1, -1}));
  }
  return at::cat(heads);
}

Tensor SparseSoftmaxMixer::attention_rows(const Tensor& q, const Tensor& k, const TokenGrid& grid,
                                          std::int64_t first, std::int64_t count) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  const Tensor queries = to_compute_type(q.narrow(2, first, count)) * scale;
  Tensor scores = queries.matmul(to_compute_type(k).transpose(-2, -1));
  const std::int64_t prefix_rows = std::clamp<std::int64_t>(grid.num_prefix - first, 0, count);
  const double sharper = logit_scale(options_, training_, grid);
  const Tensor bias = prefix_bias(grid, scores.options());
  if (prefix_rows > 0 && (sharper != 1 || bias.defined())) {
    Tensor of_prefix = scores.narrow(2, 0, prefix_rows) * sharper;
    if (bias.defined()) of_prefix = of_prefix + bias;
    scores = at::cat({of_prefix, scores.narrow(2, prefix_rows, count - prefix_rows)}, 2);
  }
  const Tensor unseen = sees(grid, first, count).logical_not().to(scores.device());
  return scores.masked_fill(unseen, -std::numeric_limits<double>::infinity()).softmax(-1);
}

Tensor SparseSoftmaxMixer::mix(const Tensor& q, const Tensor& k, const Tensor& v,
                               const TokenGrid& grid, Kernels kernels) {
  if (kernels == Kernels::reference) {
    const std::int64_t row_bytes = q.size(0) * q.size(1) * grid.num_tokens() *
                                   static_cast<std::int64_t>(to_compute_type(q).element_size());
    const std::int64_t most = std::max<std::int64_t>(1, kPieceBytes / row_bytes);
    std::vector<Tensor> parts;
    for (std::int64_t first = 0; first < grid.num_tokens(); first += most) {
      parts.push_back(mix_rows(q, k, v, grid, first, std::min(most, grid.num_tokens() - first)));
    }
    return at::cat(parts, 1);
  }
  std::vector<std::vector<KeyGroups>> groups;
  bool sees_all = true;
  for (const HeadPattern& head : heads_) {
    groups.push_back(head.pattern->groups(grid));
    sees_all = sees_all && covers(groups.back(), grid);
  }
  const double sharper = logit_scale(options_, training_, grid);
  const Tensor bias = prefix_bias(grid, q.options());
  if (sees_all && sharper == 1 && !bias.defined())
    return merge_heads(at::scaled_dot_product_attention(q, k, v));
  std::vector<Tensor> tokens;  // (B, n, H, width of v)
  if (grid.num_prefix > 0) {
    const Tensor of_prefix = q.narrow(2, 0, grid.num_prefix) * sharper;
    tokens.push_back(
        at::scaled_dot_product_attention(
            of_prefix, k, v, bias.defined() ? std::optional<Tensor>(bias) : std::nullopt)
            .transpose(1, 2));
  }
  std::vector<Tensor> heads;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < heads_.size() && num_patches(grid) > 0; ++i) {
    const std::int64_t count = heads_[i].num_heads;
    const auto part = [&](const Tensor& x) { return x.narrow(1, first, count).transpose(1, 2); };
    heads.push_back(mix_patches(part(q), part(k), part(v), grid, groups[i]));
    first += count;
  }
  if (!heads.empty()) tokens.push_back(at::cat(heads, 2));
  return at::cat(tokens, 1).flatten(2);
}

MixerCost sparse_cost(const MixerSize& size, const std::vector<HeadPattern>& heads) {
  const auto n = static_cast<double>(size.num_tokens());
  const auto prefix = static_cast<double>(size.grid.num_prefix);
  const auto features = static_cast<double>(size.embed_dim);
  double pairs = prefix * n + (n - prefix) * prefix;
  for (const HeadPattern& head : heads) {
    pairs += head.pattern->num_pairs(size.grid) * static_cast<double>(head.num_heads) /
             static_cast<double>(size.num_heads);
  }
  return {4 * features * pairs, 4 * n * features * static_cast<double>(size.bytes_per_element)};
}

}  // namespace hydrascope::model
