// The causal form of linear attention in chunks: within a chunk the masked quadratic form, before
// it the sums of all earlier tokens.
//   y = (a S_prev + tril(a b^T) v) / (a z_prev + rowsum tril(a b^T))
#include "model/attention/feature_recomputation.h"
#include "model/attention/linear_attention.h"
#include "model/attention/linear_terms.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace hydrascope::model {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kChunk = 64;
/// With logarithms a chunk holds chunk^2 F exponentials.
constexpr std::int64_t kLogarithmChunk = 16;

/// One chunk's output with plain features, and its m and a.z where there is a division.
struct ChunkOutput {
  Tensor y, m, az;
};

ChunkOutput plain_chunk(const FeatureMap& map, const Normaliser& normaliser, const Tensor& a,
                        const Tensor& b, const Tensor& v, const LinearState& before) {
  const Tensor weights = a.matmul(b.transpose(-2, -1)).tril();
  Tensor numerator = weights.matmul(v);
  Tensor az = weights.sum(-1, /*keepdim=*/true);
  if (before.k_sum.defined()) {
    numerator = numerator + a.matmul(before.kv_sum);
    az = az + times_column(a, before.k_sum);
  }
  const Tensor m = denominator(az, map, normaliser);
  return {normalise(numerator, m), m, az};
}

/// Exact for any exponents: each pair's own sum over features, scaled by the row's largest term.
Tensor logarithm_chunk(const Tensor& u, const Tensor& w, const Tensor& v,
                       const LinearState& before) {
  const std::int64_t count = u.size(2);
  const Tensor later = at::ones({count, count}, u.options().dtype(at::kBool)).triu(1);
  const Tensor pairs =
      (u.unsqueeze(3) + w.unsqueeze(2))
          .masked_fill(later.unsqueeze(-1), -std::numeric_limits<double>::infinity());
  Tensor maximum = pairs.detach().amax({3, 4});  // (B, H, n)
  Tensor from_state;
  if (before.k_sum.defined()) {
    from_state = u + before.maximum.unsqueeze(2);
    maximum = at::maximum(maximum, from_state.detach().amax(-1));
  }
  const Tensor weights = (pairs - maximum.unsqueeze(-1).unsqueeze(-1)).exp().sum(-1);
  Tensor numerator = weights.matmul(v);
  Tensor m = weights.sum(-1, /*keepdim=*/true);
  if (before.k_sum.defined()) {
    const Tensor a = (from_state - maximum.unsqueeze(-1)).exp();
    numerator = numerator + a.matmul(before.kv_sum);
    m = m + times_column(a, before.k_sum);
  }
  return numerator / m;
}

void add_plain(const Tensor& b, const Tensor& v, LinearState& state) {
  const Tensor kv = b.transpose(-2, -1).matmul(v);
  const bool empty = !state.k_sum.defined();
  state.kv_sum = empty ? kv : state.kv_sum + kv;
  state.k_sum = empty ? b.sum(2) : state.k_sum + b.sum(2);
  state.num_tokens += b.size(2);
}

/// States are constants of the backward pass: a stream must not grow a graph without end.
void detach(LinearState& state) {
  for (Tensor* tensor : {&state.kv_sum, &state.k_sum, &state.maximum}) {
    if (tensor->defined()) *tensor = tensor->detach();
  }
}

/// Chunk by chunk in plain operations; `state` moves to the end.
Tensor scan(const LinearProblem& problem, const Tensor& q, const Tensor& k, const Tensor& v,
            LinearState& state) {
  const auto& [map, grid, normaliser] = problem;
  const std::int64_t chunk = logarithmic(*map) ? kLogarithmChunk : kChunk;
  std::vector<Tensor> outputs;
  for (std::int64_t first = 0; first < q.size(2); first += chunk) {
    const std::int64_t count = std::min(chunk, q.size(2) - first);
    const TokenSpan span{first, grid};
    const Tensor a = (*map)(chunk_of(q, first, count), Side::query, span);
    const Tensor values = chunk_of(v, first, count);
    const Tensor key_chunk = chunk_of(k, first, count);
    if (logarithmic(*map)) {
      outputs.push_back(logarithm_chunk(a, (*map)(key_chunk, Side::key, span), values, state));
      accumulate(*map, key_chunk, values, span, state);
    } else {
      const Tensor b = (*map)(key_chunk, Side::key, span);
      outputs.push_back(plain_chunk(*map, normaliser, a, b, values, state).y);
      add_plain(b, values, state);
    }
  }
  return at::cat(outputs, 2);
}

/// Plain features. With G_it = gh_i . v_t - delta_i, R and r the sums over the chunks after:
///   da = gh S_prev^T - delta z_prev + tril(G) b
///   db = v R^T - r + tril(G)^T a            dv = b R + tril(a b^T)^T gh
class CausalFunction : public torch::autograd::Function<CausalFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        at::TensorList, const FeatureMapPtr& map, const TokenGrid& grid,
                        const Normaliser& normaliser, LinearState* state) {
    const LinearProblem problem{map, grid, normaliser};
    variable_list saved{q, k, v, state->kv_sum, state->k_sum};
    for (const Tensor& parameter : map->parameters()) saved.push_back(parameter);
    context->save_for_backward(std::move(saved));
    problem.save(*context);
    return scan(problem, q, k, v, *state).to(v.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_derivatives();
    const variable_list saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    LinearState state{saved[3], saved[4], {}, 0};
    const auto [map, grid, normaliser] = LinearProblem::load(*context);
    const bool divided = divides(*map, normaliser);
    const Tensor g = to_compute_type(gradients[0]);
    FeatureGradients wanted(*map);
    std::vector<Tensor> dq, dk, dv, scaled, deltas;  // gh and delta of the chunks
    for (std::int64_t first = 0; first < q.size(2); first += kChunk) {
      const std::int64_t count = std::min(kChunk, q.size(2) - first);
      const TokenSpan span{first, grid};
      FeatureRecomputation again(*map, chunk_of(q, first, count), Side::query, span);
      const Tensor a = again.values();
      const Tensor b = (*map)(chunk_of(k, first, count), Side::key, span);
      const Tensor values = chunk_of(v, first, count);
      const ChunkOutput out = plain_chunk(*map, normaliser, a, b, values, state);
      const Tensor g_chunk = g.narrow(2, first, count);
      scaled.push_back(normalise(g_chunk, out.m));
      deltas.push_back(divided ? delta_of(g_chunk, out.y, out.m, out.az, *map, normaliser)
                               : at::zeros({1}, g.options()));
      Tensor da = (scaled.back().matmul(values.transpose(-2, -1)) - deltas.back()).tril().matmul(b);
      if (state.k_sum.defined()) {
        da = da + scaled.back().matmul(state.kv_sum.transpose(-2, -1)) -
             deltas.back() * state.k_sum.unsqueeze(2);
      }
      dq.push_back(again.backward(da, wanted));
      add_plain(b, values, state);
    }
    Tensor d_kv_sum = at::zeros_like(state.kv_sum);
    Tensor d_k_sum = at::zeros_like(state.k_sum);
    for (auto chunk = static_cast<std::int64_t>(scaled.size()) - 1; chunk >= 0; --chunk) {
      const std::int64_t first = chunk * kChunk;
      const std::int64_t count = std::min(kChunk, k.size(2) - first);
      const TokenSpan span{first, grid};
      const Tensor& gh = scaled[static_cast<std::size_t>(chunk)];
      const Tensor& delta = deltas[static_cast<std::size_t>(chunk)];
      FeatureRecomputation again(*map, chunk_of(k, first, count), Side::key, span);
      const Tensor b = again.values();
      const Tensor a = (*map)(chunk_of(q, first, count), Side::query, span);
      const Tensor values = chunk_of(v, first, count);
      const Tensor G = (gh.matmul(values.transpose(-2, -1)) - delta).tril();
      const Tensor weights = a.matmul(b.transpose(-2, -1)).tril();
      dv.push_back(b.matmul(d_kv_sum) + weights.transpose(-2, -1).matmul(gh));
      const Tensor db = values.matmul(d_kv_sum.transpose(-2, -1)) - d_k_sum.unsqueeze(2) +
                        G.transpose(-2, -1).matmul(a);
      dk.push_back(again.backward(db, wanted));
      d_kv_sum += a.transpose(-2, -1).matmul(gh);
      d_k_sum += (delta * a).sum(2);
    }
    std::ranges::reverse(dk);
    std::ranges::reverse(dv);
    variable_list result = LinearProblem::gradients(at::cat(dq, 2).to(q.scalar_type()),
                                                    at::cat(dk, 2).to(k.scalar_type()),
                                                    at::cat(dv, 2).to(v.scalar_type()), wanted);
    result.emplace_back();  // the state
    return result;
  }
};

}  // namespace

Tensor causal_linear_attention(const FeatureMapPtr& map, const Tensor& q, const Tensor& k,
                               const Tensor& v, const TokenGrid& grid, const Normaliser& normaliser,
                               LinearState& state) {
  const std::vector<Tensor> parameters = map->parameters();
  const bool recorded = wants_gradient({q, k, v}) || wants_gradient(parameters);
  if (recorded && !logarithmic(*map)) {
    return CausalFunction::apply(q, k, v, at::TensorList(parameters), map, grid, normaliser,
                                 &state);
  }
  return causal_linear_attention_reference(map, q, k, v, grid, normaliser, state);
}

Tensor causal_linear_attention_reference(const FeatureMapPtr& map, const Tensor& q, const Tensor& k,
                                         const Tensor& v, const TokenGrid& grid,
                                         const Normaliser& normaliser, LinearState& state) {
  detach(state);
  const Tensor y = scan({map, grid, normaliser}, q, k, v, state).to(v.scalar_type());
  detach(state);
  return y;
}

}  // namespace hydrascope::model
