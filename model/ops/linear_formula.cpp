#include "model/ops/linear_formula.h"

#include "model/ops/linear_features.h"
#include "model/ops/token_rows.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace hydrascope::model::ops {
namespace {

using at::Tensor;

/// Calls `body(first, count)` for chunks of tokens: features of some 256 KB per head, and never so
/// few tokens that the products get thin.
template <class Body>
void for_chunks(std::int64_t tokens, std::int64_t features, const Body& body) {
  constexpr std::int64_t kValues = std::int64_t{1} << 16;
  const std::int64_t chunk = std::max<std::int64_t>(64, kValues / features);
  for (std::int64_t first = 0; first < tokens; first += chunk)
    body(first, std::min(chunk, tokens - first));
}

/// Tokens first .. first + count, to compute with.
Tensor chunk_of(const Tensor& x, std::int64_t first, std::int64_t count) {
  return x.narrow(2, first, count).to(compute_type(x));
}

/// w_t of a chunk's tokens, (n, 1).
Tensor token_weights(std::int64_t first, std::int64_t count, const LinearOptions& options,
                     const at::TensorOptions& kind) {
  Tensor weights = at::full({count, 1}, options.patch_weight, kind);
  weights.narrow(0, 0, std::clamp<std::int64_t>(options.num_prefix - first, 0, count))
      .fill_(options.prefix_weight);
  return weights;
}

/// w_t phi(k_t) (B, H, n, F) of exponents or features.
Tensor key_features(const Tensor& values, std::int64_t first, const StateViews& state,
                    const LinearOptions& options) {
  Tensor b = options.exponential() ? (values - state.maximum.unsqueeze(2)).exp() : values;
  return options.weighs() ? b * token_weights(first, values.size(2), options, values.options()) : b;
}

Tensor query_features(const Tensor& values, const StateViews& state, const LinearOptions& options) {
  if (!options.exponential()) return values;
  const Tensor shifted = values + state.maximum.unsqueeze(2);
  return (shifted - shifted.amax(-1, /*keepdim=*/true)).exp();
}

/// m (B, H, n, 1)
Tensor denominator_of(const Tensor& a, const StateViews& state, const LinearOptions& options) {
  const Tensor az = a.matmul(state.k_sum.unsqueeze(-1));
  return options.exponential() ? az : az + options.eps;
}

void sum_keys(const Tensor& k, const Tensor& v, const StateViews& state,
              const LinearOptions& options) {
  const std::int64_t features = state.k_sum.size(2);
  // Exponents are made twice, so that sums need no rescaling.
  state.maximum.zero_();
  if (options.exponential()) {
    for_chunks(k.size(2), features, [&](std::int64_t first, std::int64_t count) {
      const Tensor most = map_features(chunk_of(k, first, count), options).amax(2);
      state.maximum.copy_(first == 0 ? most : at::maximum(state.maximum, most));
    });
  }
  state.kv_sum.zero_();
  state.k_sum.zero_();
  for_chunks(k.size(2), features, [&](std::int64_t first, std::int64_t count) {
    const Tensor b =
        key_features(map_features(chunk_of(k, first, count), options), first, state, options);
    state.kv_sum.add_(b.transpose(-2, -1).matmul(chunk_of(v, first, count)));
    state.k_sum.add_(b.sum(2));
  });
}

}  // namespace

StateViews views_of_state(const Tensor& state, const Tensor& q, const Tensor& v,
                          const LinearOptions& options) {
  const std::int64_t features = kernels::linear_attention::feature_dim(options.map(), q.size(3));
  const std::int64_t rows = q.size(0) * q.size(1) * features;
  return {state.narrow(0, 0, rows * v.size(3)).view({q.size(0), q.size(1), features, v.size(3)}),
          state.narrow(0, rows * v.size(3), rows).view({q.size(0), q.size(1), features}),
          state.narrow(0, rows * (v.size(3) + 1), rows).view({q.size(0), q.size(1), features})};
}

LinearForward linear_formula(const Tensor& q, const Tensor& k, const Tensor& v, bool save,
                             const LinearOptions& options) {
  auto [y, state, denominator] = empty_linear_outputs(q, v, /*save=*/true, options);
  const StateViews views = views_of_state(state, q, v, options);
  sum_keys(k, v, views, options);
  for_chunks(q.size(2), views.k_sum.size(2), [&](std::int64_t first, std::int64_t count) {
    const Tensor a =
        query_features(map_features(chunk_of(q, first, count), options), views, options);
    Tensor part = a.matmul(views.kv_sum);
    if (options.divides()) part = part / denominator_of(a, views, options);
    y.narrow(2, first, count).copy_(part);
  });
  if (!save) return {y, at::empty({0}, state.options()), at::empty({0}, denominator.options())};
  return {y, state, denominator.zero_()};
}

LinearBackward linear_formula_backward(const LinearSaved& saved, const Tensor& grad_y,
                                       const LinearOptions& options) {
  const Tensor &q = saved.q, &k = saved.k, &v = saved.v;
  const StateViews views = views_of_state(saved.state, q, v, options);
  const std::int64_t features = views.k_sum.size(2);
  Tensor dq = empty_token_rows(q);
  Tensor dk = empty_token_rows(k);
  Tensor dv = empty_token_rows(v);
  Tensor d_kv_sum = at::zeros_like(views.kv_sum);
  Tensor d_k_sum = at::zeros_like(views.k_sum);
  // dL/d(exponents), where features are their exponentials.
  const auto before_map = [&](const Tensor& values, const Tensor& gradient) {
    return options.exponential() ? values * gradient : gradient;
  };

  for_chunks(q.size(2), features, [&](std::int64_t first, std::int64_t count) {
    const Tensor u = chunk_of(q, first, count);
    const Tensor a = query_features(map_features(u, options), views, options);
    const Tensor m = options.divides() ? denominator_of(a, views, options) : Tensor();
    Tensor gh = chunk_of(grad_y, first, count);
    if (options.divides()) gh = gh / m;
    Tensor da = gh.matmul(views.kv_sum.transpose(-2, -1));
    d_kv_sum.add_(a.transpose(-2, -1).matmul(gh));
    if (options.divides()) {
      // g . y, with an y that no half type has rounded: 1 / m may enlarge what is left of da.
      const Tensor delta = (gh * (a.matmul(views.kv_sum) / m)).sum(-1, /*keepdim=*/true);
      da.sub_(delta * views.k_sum.unsqueeze(2));
      d_k_sum.sub_((delta * a).sum(2));
    }
    dq.narrow(2, first, count).copy_(map_features_vjp(u, before_map(a, da), options));
  });

  for_chunks(k.size(2), features, [&](std::int64_t first, std::int64_t count) {
    const Tensor u = chunk_of(k, first, count);
    const Tensor b = key_features(map_features(u, options), first, views, options);
    Tensor db =
        chunk_of(v, first, count).matmul(d_kv_sum.transpose(-2, -1)).add_(d_k_sum.unsqueeze(2));
    // Exponentials hold w_t already; plain features get it here.
    if (options.weighs() && !options.exponential())
      db.mul_(token_weights(first, count, options, db.options()));
    dv.narrow(2, first, count).copy_(b.matmul(d_kv_sum));
    dk.narrow(2, first, count).copy_(map_features_vjp(u, before_map(b, db), options));
  });
  return {dq, dk, dv};
}

}  // namespace hydrascope::model::ops
