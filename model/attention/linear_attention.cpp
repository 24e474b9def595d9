#include "model/attention/linear_attention.h"

#include "model/attention/feature_recomputation.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace hydrascope::model {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool logarithmic(const FeatureMap& map) { return map.values() == FeatureMap::Values::logarithms; }

/// Tokens first .. first + count of x (B, H, N, d), in the type of the computation.
Tensor chunk_of(const Tensor& x, std::int64_t first, std::int64_t count) {
  return to_compute_type(x.narrow(2, first, count));
}

/// What queries multiply with the sums of a state: the features, or
/// a = exp(U + M - max_f(U + M)) with maxima that are constants of the backward pass.
Tensor query_features(const FeatureMap& map, const Tensor& values, const Tensor& maximum) {
  if (!logarithmic(map)) return values;
  const Tensor shifted = values + maximum.unsqueeze(2);
  return (shifted - shifted.detach().amax(-1, /*keepdim=*/true)).exp();
}

/// a (B, H, n, F) times z (B, H, F) -> (B, H, n, 1).
Tensor times_column(const Tensor& a, const Tensor& z) { return a.matmul(z.unsqueeze(-1)); }

/// Is there a division at all?
bool divides(const FeatureMap& map, const Normaliser& normaliser) {
  return logarithmic(map) || normaliser.rule != Normaliser::Rule::none;
}

/// m (B, H, n, 1) from a.z; undefined when there is no division.
Tensor denominator(const Tensor& az, const FeatureMap& map, const Normaliser& normaliser) {
  if (logarithmic(map)) return az;
  switch (normaliser.rule) {
    case Normaliser::Rule::add_eps: return az + normaliser.eps;
    case Normaliser::Rule::signed_clamp: {
      const Tensor eps = at::full_like(az, normaliser.eps);
      const Tensor bound = at::where(az < 0, -eps, eps);
      return at::where(az.abs() < normaliser.eps, bound, az);
    }
    case Normaliser::Rule::none: break;
  }
  return {};
}

/// numerator / m, or the numerator when m is undefined.
Tensor normalise(const Tensor& numerator, const Tensor& m) {
  return m.defined() ? numerator / m : numerator;
}

/// delta_i = (g_i . y_i) / m_i = -dL/d(a_i . z); 0 where the clamp made m a constant.
Tensor delta_of(const Tensor& g, const Tensor& y, const Tensor& m, const Tensor& az,
                const FeatureMap& map, const Normaliser& normaliser) {
  const Tensor delta = (g * y).sum(-1, /*keepdim=*/true) / m;
  if (logarithmic(map) || normaliser.rule != Normaliser::Rule::signed_clamp) return delta;
  return delta.masked_fill(az.abs() < normaliser.eps, 0);
}

/// dL/d(values) from dL/d(features): the features are exp(values - constant) or the values.
Tensor to_values_gradient(const FeatureMap& map, const Tensor& features, const Tensor& gradient) {
  return logarithmic(map) ? features * gradient : gradient;
}

/// What the autograd function keeps beside its tensors.
struct LinearProblem {
  FeatureMapPtr map;
  TokenGrid grid;
  Normaliser normaliser;

  void save(AutogradContext& context) const {
    context.saved_data["map"] = c10::IValue::make_capsule(map);
    context.saved_data["grid"] = std::vector<std::int64_t>{
        grid.num_prefix, grid.rows, grid.columns, grid.overview_rows, grid.overview_columns};
    context.saved_data["rule"] = static_cast<std::int64_t>(normaliser.rule);
    context.saved_data["eps"] = normaliser.eps;
  }

  static LinearProblem load(AutogradContext& context) {
    const auto sizes = context.saved_data["grid"].toIntVector();
    return {c10::static_intrusive_pointer_cast<FeatureMap>(context.saved_data["map"].toCapsule()),
            {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]},
            {static_cast<Normaliser::Rule>(context.saved_data["rule"].toInt()),
             context.saved_data["eps"].toDouble()}};
  }

  /// In the order of the inputs: q, k, v, the map's parameters, then map, grid, normaliser.
  static variable_list gradients(Tensor dq, Tensor dk, Tensor dv,
                                 const FeatureGradients& parameters) {
    variable_list list{std::move(dq), std::move(dk), std::move(dv)};
    for (Tensor& gradient : parameters.gradients()) list.push_back(std::move(gradient));
    list.resize(list.size() + 3);
    return list;
  }
};

/// Tokens per chunk: features of some 256 KB per head, and never so few that the products get thin.
std::int64_t chunk_tokens(std::int64_t feature_dim) {
  constexpr std::int64_t kElements = std::int64_t{1} << 16;
  return std::max<std::int64_t>(64, kElements / std::max<std::int64_t>(1, feature_dim));
}

/// Calls `body(first, count)` for consecutive chunks of `num_tokens`. A map's feature dimension is
/// known after its first call, so the body may change `chunk`.
template <class Body>
void for_chunks(std::int64_t num_tokens, const std::int64_t& chunk, Body&& body) {
  for (std::int64_t first = 0; first < num_tokens;) {
    const std::int64_t count = std::min(chunk, num_tokens - first);
    body(first, count);
    first += count;
  }
}

LinearState state_of_keys(const FeatureMap& map, const Tensor& k, const Tensor& v,
                          const TokenGrid& grid) {
  LinearState state;
  std::int64_t chunk = 64;
  for_chunks(k.size(2), chunk, [&](std::int64_t first, std::int64_t count) {
    accumulate(map, k.narrow(2, first, count), v.narrow(2, first, count), {first, grid}, state);
    chunk = chunk_tokens(state.k_sum.size(-1));
  });
  return state;
}

Tensor read_all(const FeatureMap& map, const Tensor& q, const TokenGrid& grid,
                const LinearState& state, const Normaliser& normaliser) {
  std::vector<Tensor> parts;
  const std::int64_t chunk = chunk_tokens(state.k_sum.size(-1));
  for_chunks(q.size(2), chunk, [&](std::int64_t first, std::int64_t count) {
    parts.push_back(read_out(map, q.narrow(2, first, count), {first, grid}, state, normaliser));
  });
  return parts.size() == 1 ? parts.front() : at::cat(parts, 2);
}

/// Inputs q, k, v and the map's parameters; saved are those and the state.
class LinearAttentionFunction : public torch::autograd::Function<LinearAttentionFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        at::TensorList, const FeatureMapPtr& map, const TokenGrid& grid,
                        const Normaliser& normaliser) {
    const LinearState state = state_of_keys(*map, k, v, grid);
    const Tensor y = read_all(*map, q, grid, state, normaliser);
    // The parameters too: autograd then notices one that was changed before the backward pass.
    variable_list saved{q, k, v, state.kv_sum, state.k_sum, state.maximum};
    for (const Tensor& parameter : map->parameters()) saved.push_back(parameter);
    context->save_for_backward(std::move(saved));
    LinearProblem{map, grid, normaliser}.save(*context);
    return y.to(v.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_derivatives();
    const variable_list saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const Tensor &kv_sum = saved[3], &k_sum = saved[4], &maximum = saved[5];
    const auto [map, grid, normaliser] = LinearProblem::load(*context);
    const bool divided = divides(*map, normaliser);
    const Tensor g = to_compute_type(gradients[0]);
    FeatureGradients wanted(*map);
    Tensor d_kv_sum = at::zeros_like(kv_sum);
    Tensor d_k_sum = at::zeros_like(k_sum);
    std::vector<Tensor> dq, dk, dv;
    const std::int64_t chunk = chunk_tokens(k_sum.size(-1));
    for_chunks(q.size(2), chunk, [&](std::int64_t first, std::int64_t count) {
      FeatureRecomputation again(*map, chunk_of(q, first, count), Side::query, {first, grid});
      const Tensor a = query_features(*map, again.values(), maximum);
      const Tensor az = divided ? times_column(a, k_sum) : Tensor();
      const Tensor m = divided ? denominator(az, *map, normaliser) : Tensor();
      const Tensor g_chunk = g.narrow(2, first, count);
      const Tensor gh = normalise(g_chunk, m);
      Tensor da = gh.matmul(kv_sum.transpose(-2, -1));
      d_kv_sum += a.transpose(-2, -1).matmul(gh);
      if (divided) {
        const Tensor delta =
            delta_of(g_chunk, normalise(a.matmul(kv_sum), m), m, az, *map, normaliser);
        da = da - delta * k_sum.unsqueeze(2);
        d_k_sum -= (delta * a).sum(2);
      }
      dq.push_back(again.backward(to_values_gradient(*map, a, da), wanted));
    });
    for_chunks(k.size(2), chunk, [&](std::int64_t first, std::int64_t count) {
      FeatureRecomputation again(*map, chunk_of(k, first, count), Side::key, {first, grid});
      const Tensor b =
          logarithmic(*map) ? (again.values() - maximum.unsqueeze(2)).exp() : again.values();
      const Tensor db =
          chunk_of(v, first, count).matmul(d_kv_sum.transpose(-2, -1)) + d_k_sum.unsqueeze(2);
      dv.push_back(b.matmul(d_kv_sum));
      dk.push_back(again.backward(to_values_gradient(*map, b, db), wanted));
    });
    return LinearProblem::gradients(at::cat(dq, 2).to(q.scalar_type()),
                                    at::cat(dk, 2).to(k.scalar_type()),
                                    at::cat(dv, 2).to(v.scalar_type()), wanted);
  }
};

/// The form for training in bfloat16: bounded features, kept for the backward pass, and all
/// products in that type; z is summed in float32. The function above passes over the features many
/// times in float32, which takes a fifth of a training step. Undefined
/// where the features have no bound.
Tensor linear_attention_in_bfloat16(const FeatureMap& map, const Tensor& q, const Tensor& k,
                                    const Tensor& v, const Normaliser& normaliser) {
  if (normaliser.rule != Normaliser::Rule::add_eps) return {};
  const Tensor a = map.bounded_features(q, Side::query);
  if (!a.defined()) return {};
  const Tensor b = map.bounded_features(k, Side::key);
  const Tensor kv_sum = b.transpose(-2, -1).matmul(v);
  const Tensor k_sum = b.sum(2, /*keepdim=*/false, at::kFloat).unsqueeze(-1);
  // One product for numerators and denominators.
  const Tensor sums = a.matmul(at::cat({kv_sum, k_sum.to(kv_sum.scalar_type())}, -1));
  const std::int64_t columns = v.size(3);
  const Tensor m = sums.narrow(-1, columns, 1).to(at::kFloat) + normaliser.eps;
  return (sums.narrow(-1, 0, columns) / m).to(v.scalar_type());
}

}  // namespace

void accumulate(const FeatureMap& map, const Tensor& k, const Tensor& v, const TokenSpan& span,
                LinearState& state) {
  Tensor b = map(to_compute_type(k), Side::key, span);
  const Tensor values = to_compute_type(v);
  const bool empty = !state.k_sum.defined();
  if (logarithmic(map)) {
    Tensor maximum = b.detach().amax(2);
    if (!empty) {
      maximum = at::maximum(state.maximum, maximum);
      const Tensor factor = (state.maximum - maximum).exp();
      state.kv_sum = state.kv_sum * factor.unsqueeze(-1);
      state.k_sum = state.k_sum * factor;
    }
    b = (b - maximum.unsqueeze(2)).exp();
    state.maximum = maximum;
  }
  const Tensor kv = b.transpose(-2, -1).matmul(values);
  state.kv_sum = empty ? kv : state.kv_sum + kv;
  state.k_sum = empty ? b.sum(2) : state.k_sum + b.sum(2);
}

Tensor read_out(const FeatureMap& map, const Tensor& q, const TokenSpan& span,
                const LinearState& state, const Normaliser& normaliser) {
  const Tensor a = query_features(map, map(to_compute_type(q), Side::query, span), state.maximum);
  return normalise(a.matmul(state.kv_sum),
                   denominator(times_column(a, state.k_sum), map, normaliser));
}

Tensor linear_attention(const FeatureMapPtr& map, const Tensor& q, const Tensor& k, const Tensor& v,
                        const TokenGrid& grid, const Normaliser& normaliser) {
  const std::vector<Tensor> parameters = map->parameters();
  if (wants_gradient({q, k, v}) || wants_gradient(parameters)) {
    if (v.scalar_type() == at::kBFloat16) {
      if (const Tensor y = linear_attention_in_bfloat16(*map, q, k, v, normaliser); y.defined())
        return y;
    }
    return LinearAttentionFunction::apply(q, k, v, at::TensorList(parameters), map, grid,
                                          normaliser);
  }
  return read_all(*map, q, grid, state_of_keys(*map, k, v, grid), normaliser).to(v.scalar_type());
}

Tensor linear_attention_reference(const FeatureMapPtr& map, const Tensor& q, const Tensor& k,
                                  const Tensor& v, const TokenGrid& grid,
                                  const Normaliser& normaliser) {
  LinearState state;
  accumulate(*map, k, v, {0, grid}, state);
  return read_out(*map, q, {0, grid}, state, normaliser).to(v.scalar_type());
}

Tensor linear_attention_rows(const FeatureMapPtr& map, const Tensor& q, const Tensor& k,
                             const TokenGrid& grid, const Normaliser& normaliser,
                             std::int64_t first, std::int64_t count) {
  const Tensor values = (*map)(chunk_of(q, first, count), Side::query, {first, grid});
  const std::int64_t chunk = chunk_tokens(values.size(-1));
  if (k.size(2) <= chunk) {
    Tensor b = (*map)(to_compute_type(k), Side::key, {0, grid});
    Tensor maximum;
    if (logarithmic(*map)) {
      maximum = b.detach().amax(2);
      b = (b - maximum.unsqueeze(2)).exp();
    }
    const Tensor a = query_features(*map, values, maximum);
    return normalise(a.matmul(b.transpose(-2, -1)),
                     denominator(times_column(a, b.sum(2)), *map, normaliser));
  }
  // Wide maps of many keys are never held at once: one pass for the sums, one for the columns. Of
  // the sums only z is read, so a single column stands for the values.
  const LinearState state = state_of_keys(*map, k, k.narrow(3, 0, 1), grid);
  const Tensor a = query_features(*map, values, state.maximum);
  std::vector<Tensor> columns;
  for_chunks(k.size(2), chunk, [&](std::int64_t begin, std::int64_t number) {
    Tensor b = (*map)(chunk_of(k, begin, number), Side::key, {begin, grid});
    if (logarithmic(*map)) b = (b - state.maximum.unsqueeze(2)).exp();
    columns.push_back(a.matmul(b.transpose(-2, -1)));
  });
  const Tensor m = denominator(times_column(a, state.k_sum), *map, normaliser);
  return normalise(at::cat(columns, -1), m);
}

}  // namespace hydrascope::model
