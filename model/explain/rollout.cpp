#include "model/explain/rollout.h"

#include "model/attention/unit_rows.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

namespace hydrascope::model::explain {
namespace {

using at::Tensor;

/// Calls `body(first, count)` for the chunks of query rows in which r is not all zero. The rows of
/// a chunk take some 16 MB for all heads: linear mechanisms make the keys' features for each chunk.
template <class Body>
void for_rows(const Tensor& r, std::int64_t num_heads, Body body) {
  constexpr std::int64_t kElements = std::int64_t{1} << 22;
  const std::int64_t num_tokens = r.size(0);
  const std::int64_t chunk = std::clamp<std::int64_t>(kElements / (num_heads * num_tokens), 1, 256);
  const Tensor read = r.ne(0).cpu();
  for (std::int64_t first = 0; first < num_tokens; first += chunk) {
    const std::int64_t count = std::min(chunk, num_tokens - first);
    const auto* flags = read.const_data_ptr<bool>() + first;
    if (std::any_of(flags, flags + count, [](bool flag) { return flag; })) body(first, count);
  }
}

Tensor by_rows(TokenMixer& mixer, const MixerInputs& inputs, const TokenGrid& grid,
               const Tensor& r) {
  const std::int64_t num_heads = inputs.k.size(1);
  Tensor sum = at::zeros({num_heads, r.size(0)}, r.options());
  for_rows(r, num_heads, [&](std::int64_t first, std::int64_t count) {
    const Tensor rows = mixer.attention_rows(inputs.q, inputs.k, grid, first, count).squeeze(0);
    sum += at::matmul(r.narrow(0, first, count), rows);
  });
  return sum;
}

Tensor by_gradient(TokenMixer& mixer, const MixerInputs& inputs, const TokenGrid& grid,
                   const Tensor& r) {
  const at::AutoGradMode with_gradient(true);
  const std::int64_t num_heads = inputs.k.size(1);
  const Tensor v = at::zeros({1, num_heads, r.size(0), 1}, r.options()).requires_grad_();
  const Tensor y = mixer.mix(inputs.q, inputs.k, v, grid, Kernels::automatic);  // (1, N, H)
  const Tensor cotangent = r.unsqueeze(1).expand({-1, num_heads}).unsqueeze(0);
  return torch::autograd::grad({y}, {v}, {cotangent})[0].view({num_heads, -1});
}

}  // namespace

Tensor pull_through_map(const MechanismEntry& mechanism, TokenMixer& mixer,
                        const MixerInputs& inputs, const TokenGrid& grid, const Tensor& r) {
  return mechanism.quadratic ? by_rows(mixer, inputs, grid, r)
                             : by_gradient(mixer, inputs, grid, r);
}

Tensor pull_through_cosine(const MixerInputs& inputs, const Tensor& r) {
  const Tensor qh = unit_rows(merge_heads(inputs.q)).squeeze(0);  // (N, D)
  const Tensor kh = unit_rows(merge_heads(inputs.k)).squeeze(0);
  // sum_t (1 + cos(q_i, k_t)): 0 only where every key is opposite to the query.
  constexpr double kEps = 1e-6;
  const Tensor m = qh.mv(kh.sum(0)) + static_cast<double>(kh.size(0)) + kEps;
  const Tensor weights = r / m;
  return weights.sum() + kh.mv(weights.matmul(qh));
}

Tensor roll(const MechanismEntry& mechanism, TokenMixer& mixer, const MixerInputs& inputs,
            const TokenGrid& grid, MaplessLayers mapless, const Tensor& r) {
  if (mechanism.rows_sum_to_one)
    return (r + pull_through_map(mechanism, mixer, inputs, grid, r).mean(0)) / 2;
  return mapless == MaplessLayers::skip ? r : (r + pull_through_cosine(inputs, r)) / 2;
}

std::string rule_of_roll(const MechanismEntry& mechanism, MaplessLayers mapless) {
  if (mechanism.rows_sum_to_one) return mechanism.name + " map";
  return mapless == MaplessLayers::skip ? mechanism.name + " skipped"
                                        : "1 + cos of " + mechanism.name + "'s q and k";
}

Tensor roll_gradient(Method method, TokenMixer& mixer, const MixerInputs& inputs, const Tensor& g,
                     const TokenGrid& grid, const Tensor& r) {
  Tensor sum = r.clone();
  const bool renormalised = method == Method::grad_rollout;
  if (renormalised) sum.zero_();
  for_rows(r, inputs.k.size(1), [&](std::int64_t first, std::int64_t count) {
    const Tensor weighted = mixer
                                .weighted_rows(inputs.q, inputs.k, inputs.v,
                                               g.narrow(1, first, count), grid, first, count)
                                .squeeze(0);  // (H, count, N)
    Tensor rows = r.narrow(0, first, count);
    if (!renormalised) {
      sum += rows.matmul(weighted.relu().mean(0));
      return;
    }
    const Tensor map = weighted.mean(0).relu();
    rows = rows / (1 + map.sum(-1));
    sum += rows.matmul(map);
    sum.narrow(0, first, count) += rows;
  });
  return sum;
}

std::string rule_of_roll_gradient(const MechanismEntry& mechanism) {
  return mechanism.name + (mechanism.has_map ? " map * gradient" : " features' maps * gradients");
}

}  // namespace hydrascope::model::explain
