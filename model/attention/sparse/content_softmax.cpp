#include "model/attention/sparse/content_softmax.h"

#include "model/attention/sparse/softmax_sums.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace hydrascope::model {
namespace {

using at::Tensor;

/// Copies of keys and values, and rows of the map, are made in pieces of this size.
constexpr std::int64_t kGroupBytes = std::int64_t{64} << 20;

/// What is taken from a token's score with itself where q and k are shared.
constexpr double kOwnPenalty = 1e5;

/// The sums of one pass: q, k, v (B, H, patches, .) -> (B, H, patches, width of v + 2).
Tensor pass_sums(const Tensor& q, const Tensor& k, const Tensor& v, const FoundGroups& groups) {
  const auto flat = [](const Tensor& x) { return x.reshape({-1, x.size(3)}); };
  const Tensor all_q = flat(q);
  const Tensor all_k = flat(k);
  const Tensor all_v = flat(v);
  const std::int64_t n = groups.queries.size(1);
  const std::int64_t m = groups.keys.size(1);
  const std::int64_t bytes = (n * q.size(3) + m * (k.size(3) + v.size(3)) + 2 * n * m) *
                             static_cast<std::int64_t>(to_compute_type(q).element_size());
  const std::int64_t most = std::max<std::int64_t>(1, kGroupBytes / bytes);
  std::vector<Tensor> parts;
  for (std::int64_t first = 0; first < groups.queries.size(0); first += most) {
    const std::int64_t count = std::min(most, groups.queries.size(0) - first);
    const auto taken = [&](const Tensor& x, const Tensor& index) {
      const Tensor of_piece = index.narrow(0, first, count);
      return x.index_select(0, of_piece.flatten()).unflatten(0, of_piece.sizes());
    };
    parts.push_back(softmax_sums(taken(all_q, groups.queries), taken(all_k, groups.keys),
                                 taken(all_v, groups.keys), groups.sees.narrow(0, first, count))
                        .flatten(0, 1));
  }
  const Tensor order = groups.queries.flatten();
  const Tensor place_of = at::zeros({all_q.size(0)}, order.options())
                              .scatter_(0, order, at::arange(order.numel(), order.options()));
  return at::cat(parts).index_select(0, place_of).unflatten(0, {q.size(0), q.size(1), q.size(2)});
}

/// Those of a patch's own key.
Tensor own_sums(const Tensor& q, const Tensor& k, const Tensor& v, double penalty) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  const Tensor score =
      (to_compute_type(q) * scale * to_compute_type(k)).sum(-1, /*keepdim=*/true) - penalty;
  const Tensor maximum = score.detach();
  const Tensor weight = (score - maximum).exp();
  return at::cat({weight * to_compute_type(v), weight, maximum}, -1);
}

/// What patches first .. first + count see of the patches: (B H, count, patches) bool.
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
  Tensor scores =
      scaled_products(to_compute_type(q.narrow(2, first, count)), to_compute_type(keys));
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
  return rows(q, keys_of(q, k), grid, find(q, k, grid), first, count);
}

Tensor ContentSoftmaxMixer::mix(const Tensor& q, const Tensor& k, const Tensor& v,
                                const TokenGrid& grid, Kernels kernels) {
  if (kernels != Kernels::reference && !shares_qk_ && pattern_->finds_all(grid.num_image_tokens()))
    return merge_heads(at::scaled_dot_product_attention(q, k, v));
  const Tensor keys = keys_of(q, k);
  const std::vector<FoundGroups> passes = find(q, k, grid);
  const auto by_rows = [&](std::int64_t first, std::int64_t count) {
    const Tensor map = rows(q, keys, grid, passes, first, count);
    return merge_heads(map.matmul(v.to(map.scalar_type()))).to(v.scalar_type());
  };
  std::vector<Tensor> tokens;  // (B, n, H * width of v)
  if (kernels == Kernels::reference) {
    const std::int64_t row_bytes = q.size(0) * q.size(1) * grid.num_tokens() *
                                   static_cast<std::int64_t>(to_compute_type(q).element_size());
    const std::int64_t most = std::max<std::int64_t>(1, kGroupBytes / row_bytes);
    for (std::int64_t first = 0; first < grid.num_tokens(); first += most)
      tokens.push_back(by_rows(first, std::min(most, grid.num_tokens() - first)));
    return at::cat(tokens, 1);
  }
  if (grid.num_prefix > 0) tokens.push_back(by_rows(0, grid.num_prefix));
  if (grid.num_image_tokens() > 0) {
    const auto prefix = [&](const Tensor& x) { return x.narrow(2, 0, grid.num_prefix); };
    const auto patches = [&](const Tensor& x) { return x.slice(2, grid.num_prefix); };
    const Tensor queries = patches(q);
    std::vector<Tensor> sums{
        own_sums(queries, patches(keys), patches(v), shares_qk_ ? kOwnPenalty : 0)};
    if (grid.num_prefix > 0) sums.push_back(softmax_sums(queries, prefix(keys), prefix(v), {}));
    for (const FoundGroups& groups : passes)
      sums.push_back(pass_sums(queries, patches(keys), patches(v), groups));
    tokens.push_back(merge_heads(merged_softmax(sums)).to(v.scalar_type()));
  }
  return at::cat(tokens, 1);
}

}  // namespace hydrascope::model
