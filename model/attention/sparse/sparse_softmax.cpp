#include "model/attention/sparse/sparse_softmax.h"

#include "model/attention/sparse/softmax_sums.h"
#include "model/attention/token_scale.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace hydrascope::model {
namespace {

using at::Tensor;

/// Copies of keys and values, and rows of the map, are made in pieces of this size.
constexpr std::int64_t kPieceBytes = std::int64_t{64} << 20;

/// Is it softmax over all tokens?
bool covers(const std::vector<std::vector<KeyGroups>>& passes, const TokenGrid& grid) {
  const std::int64_t patches = grid.num_image_tokens();
  if (patches == 0) return true;
  const KeyGroups& first = passes.front().front();
  return passes.size() == 1 && first.queries.numel() == patches && first.keys.numel() == patches &&
         first.queries.size(0) == 1 && !first.sees.defined();
}

/// Tokens of x (B, N, h, d) by index (G, n) -> (B G, h, n, d).
Tensor grouped(const Tensor& x, const Tensor& index) {
  return x.index_select(1, index.flatten())
      .unflatten(1, {index.size(0), index.size(1)})
      .flatten(0, 1)
      .transpose(1, 2);
}

/// The groups that a piece of work is of, and what changes their scores, or null.
struct ScoredPairs {
  const PositionRule* rule;
  TokenPairs pairs;
};

/// s of groups by the rule, (b, h, n, m) of the compute type, -inf for what is not seen.
Tensor scores_of(const Tensor& q, const Tensor& k, const Tensor& sees, const ScoredPairs& scored) {
  const auto by_group = [&](const Tensor& x) {
    return to_compute_type(x).unflatten(0, {-1, scored.pairs.queries.size(0)});
  };
  const Tensor scores = scored.rule->scores(by_group(q), by_group(k), scored.pairs).flatten(0, 1);
  if (!sees.defined()) return scores;
  return scores.masked_fill(sees.logical_not(), -std::numeric_limits<double>::infinity());
}

/// What weights (b, h, n, m) make of v, and of what the rule adds to it.
Tensor weighed_values(const Tensor& weights, const Tensor& v, std::int64_t head_dim,
                      const ScoredPairs& scored) {
  const Tensor y = weights.matmul(to_compute_type(v));
  // Values of another width stand for something else, which the rows weigh as they are (rollouts).
  if (!scored.rule->adds_values() || v.size(3) != head_dim) return y;
  const Tensor by_group = weights.unflatten(0, {-1, scored.pairs.queries.size(0)});
  return y + scored.rule->added_values(by_group, scored.pairs).flatten(0, 1);
}

/// Attention of groups: q (b, h, n, d), k and v (b, h, m, .), `sees` (n, m) or undefined -> (b, h, n, .).
using Attend = Tensor (*)(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& sees,
                          const ScoredPairs& scored);

Tensor softmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& sees,
               const ScoredPairs& scored) {
  if (scored.rule == nullptr) {
    return at::scaled_dot_product_attention(
        q, k, v, sees.defined() ? std::optional<Tensor>(sees) : std::nullopt);
  }
  const Tensor weights = scores_of(q, k, sees, scored).softmax(-1);
  return weighed_values(weights, v, q.size(3), scored).to(v.scalar_type());
}

/// Numerators, denominator and maximum, as `softmax_sums` has them: (b, h, n, width of v + 2).
Tensor scored_sums(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& sees,
                   const ScoredPairs& scored) {
  if (scored.rule == nullptr) return softmax_sums(q, k, v, sees);
  const auto [weights, maximum] = stable_exponentials(scores_of(q, k, sees, scored));
  return at::cat(
      {weighed_values(weights, v, q.size(3), scored), weights.sum(-1, /*keepdim=*/true), maximum},
      -1);
}

/// A pass over one head range's patches: q, k, v (B, N, h, .) -> (B, image tokens, h, .), what
/// `attend` gives. `num_prefix`: tokens that all groups see beside their own keys. `scored` has
/// the rule, the grid and the range's first head.
Tensor attend_groups(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                     std::int64_t num_prefix, const std::vector<KeyGroups>& all, Attend attend,
                     ScoredPairs scored) {
  const std::int64_t heads = q.size(2);
  const Tensor prefix_tokens = at::arange(num_prefix, at::kLong);
  std::vector<Tensor> parts;
  std::vector<Tensor> order;
  for (const KeyGroups& groups : all) {
    const std::int64_t n = groups.queries.size(1);
    const std::int64_t m = num_prefix + groups.keys.size(1);
    const Tensor query_tokens = groups.queries + grid.num_prefix;
    const Tensor key_tokens = at::cat(
        {prefix_tokens.expand({groups.keys.size(0), -1}), groups.keys + grid.num_prefix}, 1);
    const Tensor queries = query_tokens.to(q.device());
    const Tensor keys = key_tokens.to(q.device());
    Tensor sees;
    if (groups.sees.defined())
      sees = at::cat({at::ones({n, num_prefix}, at::kBool), groups.sees}, 1).to(q.device());
    // Where v has another width than q (rollouts send one column) LibTorch makes the weights.
    const bool has_weights = attend != softmax || v.size(3) != q.size(3) || scored.rule != nullptr;
    const std::int64_t group_bytes =
        q.size(0) * heads *
        (2 * n * q.size(3) + m * (q.size(3) + v.size(3)) + (has_weights ? n * m : 0)) *
        static_cast<std::int64_t>(q.element_size());
    const std::int64_t most = std::max<std::int64_t>(1, kPieceBytes / group_bytes);
    for (std::int64_t first = 0; first < queries.size(0); first += most) {
      const std::int64_t count = std::min(most, queries.size(0) - first);
      const Tensor of_keys = keys.narrow(0, first, count);
      scored.pairs.queries = query_tokens.narrow(0, first, count);
      scored.pairs.keys = key_tokens.narrow(0, first, count);
      const Tensor y = attend(grouped(q, queries.narrow(0, first, count)), grouped(k, of_keys),
                              grouped(v, of_keys), sees, scored);
      parts.push_back(y.transpose(1, 2).unflatten(0, {q.size(0), count}).flatten(1, 2));
    }
    order.push_back(groups.queries.flatten());
  }
  return in_patch_order(parts, order);
}

/// `mix_patches` with scores that a rule changes.
Tensor mix_scored_patches(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                          std::int64_t num_shared,
                          const std::vector<std::vector<KeyGroups>>& passes,
                          const ScoredPairs& scored) {
  if (passes.size() == 1)
    return attend_groups(q, k, v, grid, num_shared, passes.front(), softmax, scored);
  std::vector<Tensor> sums;
  for (const std::vector<KeyGroups>& groups : passes) {
    const std::int64_t num_prefix = sums.empty() ? num_shared : 0;
    sums.push_back(attend_groups(q, k, v, grid, num_prefix, groups, scored_sums, scored));
  }
  return merged_softmax(sums).to(v.scalar_type());
}

/// A function, because entries of other files ask before the constants of this one are made.
const ChoiceOption<PrefixRows>& prefix_rows_option() {
  static const ChoiceOption<PrefixRows> option(
      "prefix_rows",
      {{"plain", PrefixRows::plain},
       {"scaled", PrefixRows::scaled},
       {"learned", PrefixRows::learned}},
      "scores of prefix tokens, which see the whole picture: as they are, sharper over more tokens "
      "and balanced between picture and overview, or both by learned amounts");
  return option;
}

}  // namespace

std::vector<std::vector<KeyGroups>> image_passes(const KeyPattern& pattern, const TokenGrid& grid) {
  std::vector<std::vector<KeyGroups>> passes = pattern.passes(grid);
  if (grid.num_overview() == 0) return passes;
  const Tensor overview =
      at::arange(grid.num_patches(), grid.num_image_tokens(), at::kLong).unsqueeze(0);
  passes.front().push_back({overview, overview, {}});
  for (std::size_t pass = 1; pass < passes.size(); ++pass) {
    passes[pass].push_back(
        {overview, overview.narrow(1, 0, 1), at::zeros({grid.num_overview(), 1}, at::kBool)});
  }
  return passes;
}

Tensor in_patch_order(const std::vector<Tensor>& parts, const std::vector<Tensor>& patches) {
  const Tensor places = at::cat(patches);
  const Tensor part_of =
      at::empty_like(places).scatter_(0, places, at::arange(places.numel(), at::kLong));
  return at::cat(parts, 1).index_select(1, part_of.to(parts.front().device()));
}

Tensor mix_patches(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                   std::int64_t num_shared, const std::vector<std::vector<KeyGroups>>& passes) {
  return mix_scored_patches(q, k, v, grid, num_shared, passes, {nullptr, {grid, {}, {}, 0}});
}

SparseSoftmaxMixer::SparseSoftmaxMixer(std::vector<HeadPattern> heads,
                                       const TokenMixerArguments& arguments, PrefixRows prefix_rows,
                                       std::optional<GridExtent> windows)
    : heads_(std::move(heads)),
      windows_(windows),
      training_(arguments.training_grid),
      scales_prefix_rows_(prefix_rows != PrefixRows::plain),
      position_(arguments.position) {
  if (prefix_rows != PrefixRows::learned) return;
  gain_ = arguments.add_parameter("prefix_rows.gain", at::ones({arguments.num_heads}));
  overview_ = arguments.add_parameter("prefix_rows.overview", at::zeros({arguments.num_heads}));
}

double SparseSoftmaxMixer::excess(const TokenGrid& grid) const {
  return scales_prefix_rows_ ? log_scale(training_, grid) - 1 : 0;
}

FusedMixing SparseSoftmaxMixer::fused() const {
  if (position_ && position_->changes_scores()) return {};
  FusedSparse sparse;
  for (const HeadPattern& head : heads_)
    sparse.heads.push_back({head.num_heads, head.pattern.get()});
  if (windows_) sparse.window = FusedWindow{*windows_};
  return sparse;
}

PrefixWeighing SparseSoftmaxMixer::prefix_weighing(const TokenGrid& grid) const {
  const double more = excess(grid);
  if (more == 0) return {};
  // In float64: parameters may be of a half type.
  const auto learned = [](const Tensor& of_heads) { return of_heads.to(at::kDouble); };
  const auto of_all_heads = [](double value) { return at::full({1}, value, at::kDouble); };
  PrefixWeighing weighing;
  weighing.factor = gain_.defined() ? 1 + more * learned(gain_) : of_all_heads(1 + more);
  if (grid.num_overview() == 0) return weighing;
  const double balance =
      std::log(static_cast<double>(grid.num_patches()) / static_cast<double>(grid.num_overview()));
  weighing.overview = overview_.defined() ? learned(overview_) + balance : of_all_heads(balance);
  return weighing;
}

Tensor SparseSoftmaxMixer::weighed(const Tensor& scores, const TokenGrid& grid) const {
  const PrefixWeighing weighing = prefix_weighing(grid);
  if (!weighing.factor.defined()) return scores;
  const auto of_heads = [&](const Tensor& x) { return x.to(scores.options()).view({-1, 1, 1}); };
  const Tensor sharper = scores * of_heads(weighing.factor);
  if (!weighing.overview.defined()) return sharper;
  const std::int64_t native = grid.num_prefix + grid.num_patches();
  return at::cat(
      {sharper.slice(3, 0, native), sharper.slice(3, native) + of_heads(weighing.overview)}, 3);
}

Tensor SparseSoftmaxMixer::sees(const TokenGrid& grid, std::int64_t first,
                                std::int64_t count) const {
  const std::int64_t patches = grid.num_prefix;
  const std::int64_t overview = patches + grid.num_patches();
  // Rows of `one` that belong to tokens begin .. end.
  const auto rows_of = [&](const Tensor& one, std::int64_t begin, std::int64_t end) {
    begin = std::clamp(begin, first, first + count);
    end = std::clamp(end, begin, first + count);
    return one.select(0, 0).narrow(0, begin - first, end - begin);
  };
  std::vector<Tensor> heads;
  for (const HeadPattern& head : heads_) {
    Tensor one = at::zeros({1, count, grid.num_tokens()}, at::kBool);
    one.slice(2, 0, patches).fill_(true);
    rows_of(one, 0, patches).fill_(true);
    const Tensor of_patches = rows_of(one, patches, overview);
    if (of_patches.size(0) > 0) {
      of_patches.slice(1, patches, overview)
          .copy_(head.pattern->rows(grid, std::max(first, patches) - patches, of_patches.size(0)));
    }
    rows_of(one, overview, grid.num_tokens()).slice(1, overview).fill_(true);
    if (heads_.size() == 1) return one;
    heads.push_back(one.expand({head.num_heads, -1, -1}));
  }
  return at::cat(heads);
}

Tensor SparseSoftmaxMixer::attention_rows(const Tensor& q, const Tensor& k, const TokenGrid& grid,
                                          std::int64_t first, std::int64_t count) {
  const Tensor queries = q.narrow(2, first, count);
  Tensor scores = position_ ? position_->score_rows(queries, k, grid, first)
                            : scaled_products(to_compute_type(queries), to_compute_type(k));
  const std::int64_t prefix_rows = std::clamp<std::int64_t>(grid.num_prefix - first, 0, count);
  if (prefix_rows == count) return weighed(scores, grid).softmax(-1);
  if (prefix_rows > 0) {
    scores = at::cat({weighed(scores.narrow(2, 0, prefix_rows), grid),
                      scores.narrow(2, prefix_rows, count - prefix_rows)},
                     2);
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
  std::vector<std::vector<std::vector<KeyGroups>>> passes;
  bool sees_all = true;
  for (const HeadPattern& head : heads_) {
    passes.push_back(image_passes(*head.pattern, grid));
    sees_all = sees_all && covers(passes.back(), grid);
  }
  const auto turned = [&](const Tensor& x) {
    return position_ ? position_->turned(to_compute_type(x), grid, 0).to(x.scalar_type()) : x;
  };
  const Tensor queries = turned(q);
  const Tensor keys = turned(k);
  const PositionRule* rule = position_ && position_->changes_scores() ? position_.get() : nullptr;
  if (sees_all && excess(grid) == 0 && rule == nullptr)
    return merge_heads(at::scaled_dot_product_attention(queries, keys, v));
  std::vector<Tensor> tokens;  // (B, n, H * width of v)
  if (grid.num_prefix > 0) tokens.push_back(mix_rows(q, k, v, grid, 0, grid.num_prefix));
  std::vector<Tensor> heads;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < heads_.size() && grid.num_patches() > 0; ++i) {
    const std::int64_t count = heads_[i].num_heads;
    const auto part = [&](const Tensor& x) { return x.narrow(1, first, count).transpose(1, 2); };
    heads.push_back(mix_scored_patches(part(queries), part(keys), part(v), grid, grid.num_prefix,
                                       passes[i], {rule, {grid, {}, {}, first}}));
    first += count;
  }
  if (!heads.empty()) tokens.push_back(at::cat(heads, 2).flatten(2));
  return at::cat(tokens, 1);
}

MixerCost sparse_cost(const MixerSize& size, const std::vector<HeadPattern>& heads) {
  const auto n = static_cast<double>(size.num_tokens());
  const auto prefix = static_cast<double>(size.grid.num_prefix);
  const auto features = static_cast<double>(size.embed_dim);
  const auto overview = static_cast<double>(size.grid.num_overview());
  double pairs = prefix * n + (n - prefix) * prefix + overview * overview;
  for (const HeadPattern& head : heads) {
    pairs += head.pattern->num_pairs(size.grid) * static_cast<double>(head.num_heads) /
             static_cast<double>(size.num_heads);
  }
  return {4 * features * pairs, 4 * n * features * static_cast<double>(size.bytes_per_element)};
}

MechanismEntry sparse_mechanism(
    MechanismEntry entry, HeadPatterns heads,
    std::function<std::optional<GridExtent>(const MechanismOptions&, const SparseLayer&)> windows) {
  entry.options.push_back(prefix_rows_option());
  entry.parameters = {{"prefix_rows.gain", "(H), with prefix_rows=learned", "ones"},
                      {"prefix_rows.overview", "(H), with prefix_rows=learned", "zeros"}};
  entry.rows_sum_to_one = true;
  entry.non_negative = true;
  entry.permutation_equivariant = false;
  entry.sparse = true;
  entry.takes_positions = true;
  entry.cost = [heads](const MixerSize& size, const MechanismOptions& options) {
    return sparse_cost(
        size, heads(options, {size.training_grid, size.num_heads, size.layer_index, size.depth}));
  };
  entry.added_elements = [](const MixerSize& size, const MechanismOptions& options) {
    return prefix_rows_option()(options) == PrefixRows::learned
               ? 2 * static_cast<double>(size.num_heads)
               : 0;
  };
  entry.make = [heads,
                windows](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
    const SparseLayer layer{arguments.training_grid, arguments.num_heads, arguments.layer_index,
                            arguments.depth};
    return std::make_unique<SparseSoftmaxMixer>(
        heads(arguments.options, layer), arguments, prefix_rows_option()(arguments.options),
        windows ? windows(arguments.options, layer) : std::nullopt);
  };
  return entry;
}

}  // namespace hydrascope::model
