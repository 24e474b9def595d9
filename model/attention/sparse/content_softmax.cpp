#include "model/attention/sparse/content_softmax.h"

#include "model/attention/pieces.h"
#include "model/attention/sparse/softmax_sums.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

namespace hydrascope::model {
namespace {

using at::Tensor;

/// Penalty of a token's score with itself if q and k are shared.
constexpr double kOwnPenalty = 1e5;

/// The groups of one head, in all images.
FoundGroups of_head(const FoundGroups& groups, std::int64_t head, std::int64_t num_heads,
                    std::int64_t num_patches) {
  const Tensor heads = groups.queries.select(1, 0).div(num_patches, "floor").remainder(num_heads);
  const Tensor some = heads.eq(head).nonzero().squeeze(1);
  return {groups.queries.index_select(0, some), groups.keys.index_select(0, some),
          groups.sees.index_select(0, some)};
}

/// The sums of one pass: q, k, v (B, H, patches, .) -> (B, H, patches, width of v + 2).
Tensor pass_sums(const Tensor& q, const Tensor& k, const Tensor& v, const FoundGroups& groups,
                 const TokenGrid& grid, const PositionRule* rule) {
  const auto flat = [](const Tensor& x) { return x.reshape({1, -1, 1, x.size(3)}); };
  const auto tokens = [&](const Tensor& patches) {
    return patches.cpu().remainder(q.size(2)) + grid.num_prefix;
  };
  std::vector<Tensor> parts, order;
  const auto add = [&](const FoundGroups& some, std::int64_t head) {
    ScoredPairs scored{rule, {grid, {}, {}, head}};
    parts.push_back(
        attend_in_pieces(flat(q), flat(k), flat(v), some.queries, some.keys, 2,
                         [&](const Tensor& some_q, const Tensor& some_k, const Tensor& some_v,
                             std::int64_t first, std::int64_t count) {
                           if (rule != nullptr) {
                             scored.pairs.queries = tokens(some.queries.narrow(0, first, count));
                             scored.pairs.keys = tokens(some.keys.narrow(0, first, count));
                           }
                           const Tensor sees = some.sees.narrow(0, first, count).unsqueeze(1);
                           return softmax_sums(some_q, some_k, some_v, sees, scored);
                         }));
    order.push_back(some.queries.flatten());
  };
  if (rule == nullptr) {
    add(groups, 0);
  } else {  // It may differ by head.
    for (std::int64_t head = 0; head < q.size(1); ++head)
      add(of_head(groups, head, q.size(1), q.size(2)), head);
  }
  return in_token_order(parts, order, q.size(0) * q.size(1) * q.size(2))
      .view({q.size(0), q.size(1), q.size(2), -1});
}

/// The sums of a patch's own key; `penalty` is subtracted from its score.
Tensor own_sums(const Tensor& q, const Tensor& k, const Tensor& v, double penalty,
                const TokenGrid& grid, const PositionRule* rule) {
  const auto groups = [](const Tensor& x) { return x.transpose(1, 2).unsqueeze(3); };
  const Tensor tokens = at::arange(grid.num_prefix, grid.num_tokens(), at::kLong).unsqueeze(1);
  const Tensor sums =
      softmax_sums(groups(q), groups(k), groups(v), {}, {rule, {grid, tokens, tokens, 0}})
          .squeeze(3)
          .transpose(1, 2);
  if (penalty == 0) return sums;
  const std::int64_t width = sums.size(3) - 1;
  return at::cat({sums.narrow(3, 0, width), sums.narrow(3, width, 1) - penalty}, 3);
}

/// Whether patches first .. first + count see each patch: (B H, count, patches) bool.
Tensor found(const std::vector<FoundGroups>& passes, std::int64_t num_heads,
             std::int64_t num_patches, std::int64_t first, std::int64_t count,
             const at::Device& device) {
  const auto options = at::TensorOptions(device).dtype(at::kChar);
  Tensor sees = at::zeros({num_heads * count, num_patches}, options);
  for (const FoundGroups& groups : passes) {
    const Tensor queries = groups.queries.flatten();
    const Tensor patch = queries.remainder(num_patches);
    const Tensor places = patch.ge(first).logical_and(patch.lt(first + count)).nonzero().squeeze(1);
    const Tensor rows = queries.index_select(0, places).div(num_patches, "floor") * count +
                        patch.index_select(0, places) - first;
    const Tensor of_group = places.div(groups.queries.size(1), "floor");
    const Tensor keys = groups.keys.index_select(0, of_group).remainder(num_patches);
    const Tensor values = groups.sees.flatten(0, 1).index_select(0, places).to(at::kChar);
    sees.index_add_(0, rows,
                    at::zeros({keys.size(0), num_patches}, options).scatter_add_(1, keys, values));
  }
  const Tensor result = sees.ne(0).view({num_heads, count, num_patches});
  result.diagonal(first, 1, 2).fill_(true);
  return result;
}

}  // namespace

Tensor ContentSoftmaxMixer::keys_of(const Tensor& q, const Tensor& k) const {
  if (!shares_qk_) return k;
  const Tensor x = to_compute_type(q);
  return x / x.norm(2, -1, /*keepdim=*/true).clamp_min(1e-12);
}

std::vector<FoundGroups> ContentSoftmaxMixer::find(const Tensor& q, const Tensor& k,
                                                   const TokenGrid& grid) const {
  if (grid.num_image_tokens() == 0) return {};
  const at::NoGradGuard no_grad;
  const auto patches = [&](const Tensor& x) {
    return x.detach().slice(2, grid.num_prefix).flatten(0, 1).to(at::kDouble);
  };
  return pattern_->passes(patches(q), patches(shares_qk_ ? q : k));
}

Tensor ContentSoftmaxMixer::rows(const Tensor& q, const Tensor& keys, const TokenGrid& grid,
                                 const std::vector<FoundGroups>& passes, std::int64_t first,
                                 std::int64_t count) const {
  const ScoredPairs scored{position_.get(), pairs_of_rows(grid, first, count)};
  Tensor scores =
      scored.scores(q.narrow(2, first, count).unsqueeze(1), keys.unsqueeze(1)).squeeze(1);
  if (shares_qk_) {
    const Tensor own = at::zeros({count, grid.num_tokens()}, scores.options());
    own.diagonal(first).fill_(kOwnPenalty);
    scores = scores - own;
  }
  const std::int64_t begin = std::clamp(grid.num_prefix, first, first + count);
  const std::int64_t patches = first + count - begin;
  if (patches == 0) return scores.softmax(-1);
  Tensor unseen = at::zeros(scores.sizes(), scores.options().dtype(at::kBool));
  unseen.narrow(2, begin - first, patches)
      .slice(3, grid.num_prefix)
      .copy_(found(passes, q.size(0) * q.size(1), grid.num_image_tokens(), begin - grid.num_prefix,
                   patches, q.device())
                 .logical_not()
                 .unflatten(0, {q.size(0), q.size(1)}));
  return scores.masked_fill(unseen, -std::numeric_limits<double>::infinity()).softmax(-1);
}

Tensor ContentSoftmaxMixer::attention_rows(const Tensor& q, const Tensor& k, const TokenGrid& grid,
                                           std::int64_t first, std::int64_t count) {
  const Tensor queries = turned_by(position_.get(), q, grid);
  const Tensor keys = turned_by(position_.get(), k, grid);
  return rows(queries, keys_of(queries, keys), grid, find(queries, keys, grid), first, count);
}

Tensor ContentSoftmaxMixer::mix(const Tensor& q, const Tensor& k, const Tensor& v,
                                const TokenGrid& grid, Kernels kernels) {
  const Tensor queries = turned_by(position_.get(), q, grid);
  const Tensor found_keys = turned_by(position_.get(), k, grid);
  const PositionRule* rule = position_ && position_->changes_scores() ? position_.get() : nullptr;
  if (kernels != Kernels::reference && !shares_qk_ && rule == nullptr &&
      pattern_->finds_all(grid.num_image_tokens()))
    return merge_heads(at::scaled_dot_product_attention(queries, found_keys, v));
  const Tensor keys = keys_of(queries, found_keys);
  const std::vector<FoundGroups> passes = find(queries, found_keys, grid);
  const auto by_rows = [&](std::int64_t first, std::int64_t count) {
    const Tensor map = rows(queries, keys, grid, passes, first, count);
    const ScoredPairs pairs{rule, pairs_of_rows(grid, first, count)};
    return merge_heads(pairs.mixed(map.unsqueeze(1), v.unsqueeze(1), q.size(3)).squeeze(1))
        .to(v.scalar_type());
  };
  if (kernels == Kernels::reference) return rows_in_pieces(q, by_rows);
  std::vector<Tensor> tokens;  // (B, n, H * width of v)
  if (grid.num_prefix > 0) tokens.push_back(by_rows(0, grid.num_prefix));
  if (grid.num_image_tokens() > 0) {
    const auto patches = [&](const Tensor& x) { return x.slice(2, grid.num_prefix); };
    std::vector<Tensor> sums{own_sums(patches(queries), patches(keys), patches(v),
                                      shares_qk_ ? kOwnPenalty : 0, grid, rule)};
    if (grid.num_prefix > 0) sums.push_back(prefix_sums(queries, keys, v, grid, rule));
    for (const FoundGroups& groups : passes)
      sums.push_back(pass_sums(patches(queries), patches(keys), patches(v), groups, grid, rule));
    tokens.push_back(merge_heads(merged_softmax(sums)).to(v.scalar_type()));
  }
  return at::cat(tokens, 1);
}

}  // namespace hydrascope::model
