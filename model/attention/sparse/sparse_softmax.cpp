#include "model/attention/sparse/sparse_softmax.h"

#include "model/attention/pieces.h"
#include "model/attention/sparse/softmax_sums.h"
#include "model/attention/sparse/sparse_form.h"
#include "model/attention/token_scale.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace hydrascope::model {
namespace {

using at::Tensor;

/// Is it softmax over all tokens?
bool covers(const std::vector<std::vector<KeyGroups>>& passes, const TokenGrid& grid) {
  const std::int64_t patches = grid.num_image_tokens();
  if (patches == 0) return true;
  const KeyGroups& first = passes.front().front();
  return passes.size() == 1 && first.queries.numel() == patches && first.keys.numel() == patches &&
         first.queries.size(0) == 1 && !first.sees.defined();
}

/// Attention of groups: q (B, G, h, n, d), k and v (B, G, h, m, .), `sees` (n, m) or undefined ->
/// (B, G, h, n, .).
using Attend = Tensor (*)(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& sees,
                          const ScoredPairs& scored);

Tensor softmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& sees,
               const ScoredPairs& scored) {
  if (scored.rule == nullptr) {
    const auto all = [](const Tensor& x) { return x.flatten(0, 1); };
    return at::scaled_dot_product_attention(
               all(q), all(k), all(v), sees.defined() ? std::optional<Tensor>(sees) : std::nullopt)
        .unflatten(0, {q.size(0), q.size(1)});
  }
  Tensor scores = scored.scores(q, k);
  if (sees.defined())
    scores = scores.masked_fill(sees.logical_not(), -std::numeric_limits<double>::infinity());
  return scored.mixed(scores.softmax(-1), v, q.size(4)).to(v.scalar_type());
}

/// A pass of `attend` over one head range's patches: q, k, v (B, N, h, .) -> (B, image tokens, h,
/// .). `num_prefix`: tokens that all groups see beside their own keys. `scored` has the rule, the
/// grid and the range's first head.
Tensor attend_groups(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                     std::int64_t num_prefix, const std::vector<KeyGroups>& all, Attend attend,
                     ScoredPairs scored) {
  const Tensor prefix_tokens = at::arange(num_prefix, at::kLong);
  std::vector<Tensor> parts;
  std::vector<Tensor> order;
  for (const KeyGroups& groups : all) {
    const Tensor queries = groups.queries + grid.num_prefix;
    const Tensor keys = at::cat(
        {prefix_tokens.expand({groups.keys.size(0), -1}), groups.keys + grid.num_prefix}, 1);
    Tensor sees;
    if (groups.sees.defined()) {
      sees = at::cat({at::ones({queries.size(1), num_prefix}, at::kBool), groups.sees}, 1);
      sees = sees.to(q.device());
    }
    // If v has another width than q (rollouts send one column), LibTorch makes the weights.
    const bool makes_map = attend != softmax || v.size(3) != q.size(3) || scored.rule != nullptr;
    parts.push_back(attend_in_pieces(
        q, k, v, queries, keys, makes_map ? 1 : 0,
        [&](const Tensor& some_q, const Tensor& some_k, const Tensor& some_v, std::int64_t first,
            std::int64_t count) {
          scored.pairs.queries = queries.narrow(0, first, count);
          const Tensor of_keys = keys.narrow(0, first, count);
          scored.pairs.keys = of_keys.masked_fill(of_keys >= grid.num_tokens(), -1);
          return attend(some_q, some_k, some_v, sees, scored);
        }));
    order.push_back(groups.queries.flatten());
  }
  return in_token_order(parts, order, grid.num_image_tokens());
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

Tensor mix_patches(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                   std::int64_t num_shared, const std::vector<std::vector<KeyGroups>>& passes,
                   const PositionRule* rule, std::int64_t first_head) {
  if (rule != nullptr && !rule->changes_scores()) rule = nullptr;
  const ScoredPairs scored{rule, {grid, {}, {}, first_head}};
  if (passes.size() == 1)
    return attend_groups(q, k, v, grid, num_shared, passes.front(), softmax, scored);
  std::vector<Tensor> sums;
  for (const std::vector<KeyGroups>& groups : passes) {
    const std::int64_t num_prefix = sums.empty() ? num_shared : 0;
    sums.push_back(attend_groups(q, k, v, grid, num_prefix, groups, softmax_sums, scored));
  }
  return merged_softmax(sums).to(v.scalar_type());
}

Tensor seen_rows(const KeyPattern& pattern, const TokenGrid& grid, std::int64_t first,
                 std::int64_t count) {
  const std::int64_t patches = grid.num_prefix;
  const std::int64_t overview = patches + grid.num_patches();
  Tensor sees = at::zeros({count, grid.num_tokens()}, at::kBool);
  // Rows that belong to tokens begin .. end.
  const auto rows_of = [&](std::int64_t begin, std::int64_t end) {
    begin = std::clamp(begin, first, first + count);
    end = std::clamp(end, begin, first + count);
    return sees.narrow(0, begin - first, end - begin);
  };
  sees.slice(1, 0, patches).fill_(true);
  rows_of(0, patches).fill_(true);
  const Tensor of_patches = rows_of(patches, overview);
  if (of_patches.size(0) > 0) {
    of_patches.slice(1, patches, overview)
        .copy_(pattern.rows(grid, std::max(first, patches) - patches, of_patches.size(0)));
  }
  rows_of(overview, grid.num_tokens()).slice(1, overview).fill_(true);
  return sees;
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

std::unique_ptr<KernelForm> SparseSoftmaxMixer::kernel_form() const {
  return std::make_unique<SparseForm>(*this);
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
  std::vector<Tensor> heads;
  for (const HeadPattern& head : heads_) {
    const Tensor one = seen_rows(*head.pattern, grid, first, count).unsqueeze(0);
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
  if (kernels == Kernels::reference) return mix_by_rows(q, k, v, grid);
  std::vector<std::vector<std::vector<KeyGroups>>> passes;
  bool sees_all = true;
  for (const HeadPattern& head : heads_) {
    passes.push_back(image_passes(*head.pattern, grid));
    sees_all = sees_all && covers(passes.back(), grid);
  }
  const Tensor queries = turned_by(position_.get(), q, grid);
  const Tensor keys = turned_by(position_.get(), k, grid);
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
    heads.push_back(mix_patches(part(queries), part(keys), part(v), grid, grid.num_prefix,
                                passes[i], rule, first));
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
  return {4 * features * pairs, 4 * n * features * static_cast<double>(size.bytes_per_element),
          pairs};
}

MechanismEntry over_some_tokens(MechanismEntry entry) {
  entry.rows_sum_to_one = true;
  entry.non_negative = true;
  entry.permutation_equivariant = false;
  entry.sparse = true;
  entry.takes_positions = true;
  return entry;
}

MechanismEntry sparse_mechanism(
    MechanismEntry entry, HeadPatterns heads,
    std::function<std::optional<GridExtent>(const MechanismOptions&, const SparseLayer&)> windows) {
  entry.options.push_back(prefix_rows_option());
  entry.parameters = {{"prefix_rows.gain", "(H), with prefix_rows=learned", "ones"},
                      {"prefix_rows.overview", "(H), with prefix_rows=learned", "zeros"}};
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
  return over_some_tokens(std::move(entry));
}

}  // namespace hydrascope::model
