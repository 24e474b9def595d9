#include "model/attention/linear/linear_attention.h"

#include "model/ops/linear_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

namespace hydrascope::model {
namespace {

using at::Tensor;
using ops::LinearFormula;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

LinearFormula formula_of(const FeatureMap& map, const TokenGrid& grid,
                         const Normaliser& normaliser) {
  return {map, normaliser, grid, map.token_weights(grid)};
}

/// Linear attention of a map that has no kernels. Inputs are u of queries and keys, and v.
class FormulaFunction : public torch::autograd::Function<FormulaFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        const FeatureMapPtr& map, const TokenGrid& grid,
                        const Normaliser& normaliser) {
    const auto [y, sums] = formula_of(*map, grid, normaliser).forward(q, k, v);
    context->save_for_backward({q, k, v, sums});
    auto& data = context->saved_data;
    data["map"] = c10::IValue::make_capsule(map);
    data["grid"] = std::vector<std::int64_t>{grid.num_prefix, grid.rows, grid.columns,
                                             grid.overview_rows, grid.overview_columns};
    data["rule"] = static_cast<std::int64_t>(normaliser.rule);
    data["eps"] = normaliser.eps;
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    // Sums over tokens are constants here: a second derivative would silently be wrong.
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "linear attention by chunks has no second derivative; Kernels::reference has");
    const variable_list saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const auto map = c10::static_intrusive_pointer_cast<FeatureMap>(data["map"].toCapsule());
    const auto sizes = data["grid"].toIntVector();
    const TokenGrid grid{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]};
    const Normaliser normaliser{static_cast<Normaliser::Rule>(data["rule"].toInt()),
                                data["eps"].toDouble()};
    const auto [dq, dk, dv] = formula_of(*map, grid, normaliser)
                                  .backward(saved[0], saved[1], saved[2], saved[3], gradients[0]);
    return {dq, dk, dv, Tensor(), Tensor(), Tensor()};
  }
};

/// The form for training in bfloat16 on the CPU: bounded features, kept for the backward pass, and all
/// products in that type; z is summed in float32. The operator's backward passes over the features
/// many times in float32, which takes a fifth of a training step of DeiT-Tiny. Undefined where the
/// features have no bound.
Tensor linear_attention_in_bfloat16(kernels::linear_attention::Feature feature, const Tensor& q,
                                    const Tensor& k, const Tensor& v, double eps) {
  const Tensor a = bounded_features(feature, q);
  if (!a.defined()) return {};
  const Tensor b = bounded_features(feature, k);
  const Tensor kv_sum = b.transpose(-2, -1).matmul(v);
  const Tensor k_sum = b.sum(2, /*keepdim=*/false, at::kFloat).unsqueeze(-1);
  // One product for numerators and denominators.
  const Tensor sums = a.matmul(at::cat({kv_sum, k_sum.to(kv_sum.scalar_type())}, -1));
  const std::int64_t columns = v.size(3);
  const Tensor m = sums.narrow(-1, columns, 1).to(at::kFloat) + eps;
  return (sums.narrow(-1, 0, columns) / m).to(v.scalar_type());
}

}  // namespace

Tensor linear_attention(const FeatureMapPtr& map, const Tensor& q, const Tensor& k, const Tensor& v,
                        const TokenGrid& grid, const Normaliser& normaliser) {
  const Tensor u_q = map->network(q, Side::query);
  const Tensor u_k = map->network(k, Side::key);
  const bool trained = wants_gradient({u_q, u_k, v});
  const std::optional<FusedFeature> fused = map->fused();
  if (!fused || normaliser.rule == Normaliser::Rule::signed_clamp) {
    if (trained) return FormulaFunction::apply(u_q, u_k, v, map, grid, normaliser);
    return std::get<0>(formula_of(*map, grid, normaliser).forward(u_q, u_k, v));
  }
  if (trained && v.is_cpu() && v.scalar_type() == at::kBFloat16) {
    const Tensor y = linear_attention_in_bfloat16(fused->feature, u_q, u_k, v, normaliser.eps);
    if (y.defined()) return y;
  }
  ops::LinearOptions options;
  options.feature = fused->feature;
  options.normaliser = normaliser;
  options.unit_eps = fused->unit_eps;
  options.num_prefix = grid.num_prefix;
  options.weights = map->token_weights(grid);
  return ops::attend({u_q, u_k, v, std::nullopt}, options);
}

Tensor linear_attention_reference(const FeatureMapPtr& map, const Tensor& q, const Tensor& k,
                                  const Tensor& v, const TokenGrid& grid,
                                  const Normaliser& normaliser) {
  const LinearFormula formula = formula_of(*map, grid, normaliser);
  const auto values = [&](const Tensor& x, Side side) {
    return formula.values(map->network(to_compute_type(x), side), side, 0);
  };
  const Tensor of_keys = values(k, Side::key);
  const Tensor maximum = formula.maximum(of_keys);
  const Tensor b = formula.key_features(of_keys, maximum, 0);
  const Tensor a = formula.query_features(values(q, Side::query), maximum);
  const Tensor s = b.transpose(-2, -1).matmul(to_compute_type(v));
  return formula.normalised(a.matmul(s), a, b.sum(2)).to(v.scalar_type());
}

Tensor linear_attention_rows(const FeatureMapPtr& map, const Tensor& q, const Tensor& k,
                             const TokenGrid& grid, const Normaliser& normaliser,
                             std::int64_t first, std::int64_t count) {
  const LinearFormula formula = formula_of(*map, grid, normaliser);
  const Tensor u_k = map->network(to_compute_type(k), Side::key);
  const Tensor u_q = map->network(to_compute_type(q.narrow(2, first, count)), Side::query);
  const Tensor values = formula.values(u_q, Side::query, first);
  // Wide maps of many keys are never held at once: one pass for the maxima, one for the columns.
  Tensor whole;  // of all keys, where they are one chunk
  const auto for_keys = [&](const auto& body) {
    ops::for_token_chunks(k.size(2), values.size(-1), [&](std::int64_t begin, std::int64_t number) {
      if (whole.defined()) return body(begin, whole);
      const Tensor keys = formula.values(u_k.narrow(2, begin, number), Side::key, begin);
      if (number == k.size(2)) whole = keys;
      body(begin, keys);
    });
  };
  Tensor maximum;
  if (map->values() == FeatureMap::Values::logarithms) {
    for_keys([&](std::int64_t, const Tensor& keys) {
      const Tensor most = formula.maximum(keys);
      maximum = maximum.defined() ? at::maximum(maximum, most) : most;
    });
  }
  const Tensor a = formula.query_features(values, maximum);
  std::vector<Tensor> columns;
  Tensor z;
  for_keys([&](std::int64_t begin, const Tensor& keys) {
    const Tensor b = formula.key_features(keys, maximum, begin);
    columns.push_back(a.matmul(b.transpose(-2, -1)));
    z = z.defined() ? z + b.sum(2) : b.sum(2);
  });
  return formula.normalised(at::cat(columns, -1), a, z);
}

}  // namespace hydrascope::model
