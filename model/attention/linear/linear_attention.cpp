#include "model/attention/linear/linear_attention.h"

#include "model/attention/attention.h"

#include <ATen/ATen.h>

#include <utility>
#include <vector>

namespace hydrascope::model {

using at::Tensor;
using ops::LinearSums;

Tensor linear_attention(const FeatureMapPtr& map, const Tensor& q, const Tensor& k, const Tensor& v,
                        const TokenGrid& grid, const Normaliser& normaliser) {
  const Tensor u_q = map->network(q, Side::query);
  const Tensor u_k = map->network(k, Side::key);
  const auto rule = kernel_rule(*map, normaliser);
  if (rule && v.is_cpu() && v.scalar_type() == at::kBFloat16 && wants_gradient({u_q, u_k, v})) {
    // The closed form's backward passes over the features many times in float32, which takes a fifth of
    // a training step of DeiT-Tiny. Features with a bound need no maxima.
    if (const Tensor a = bounded_features(rule->feature, u_q); a.defined()) {
      const Tensor b = bounded_features(rule->feature, u_k);
      const Tensor s = b.transpose(-2, -1).matmul(v);
      const Tensor z = b.sum(2, /*keepdim=*/false, compute_type(b)).unsqueeze(-1);
      // One product for numerators and denominators.
      const Tensor products = a.matmul(at::cat({s, z.to(s.scalar_type())}, -1));
      const Tensor m = to_compute_type(products.narrow(-1, v.size(3), 1)) + normaliser.eps;
      return (products.narrow(-1, 0, v.size(3)) / m).to(v.scalar_type());
    }
  }
  // The kernels' maps know their gradients in closed form.
  const FeatureMapPtr summed = rule ? kernel_map({rule->feature, rule->unit_eps}) : map;
  return ops::attend(
      {u_q, u_k, v, std::nullopt},
      c10::make_intrusive<LinearSums>(summed, normaliser, grid, map->token_weights(grid)));
}

Tensor linear_attention_reference(const FeatureMapPtr& map, const Tensor& q, const Tensor& k,
                                  const Tensor& v, const TokenGrid& grid,
                                  const Normaliser& normaliser,
                                  const std::function<void(MixerState&)>& change) {
  const LinearSums formula(map, normaliser, grid);
  const auto values = [&](const Tensor& x, Side side) {
    return formula.values(map->network(to_compute_type(x), side), side, 0);
  };
  const Tensor of_keys = values(k, Side::key);
  const Tensor maximum = formula.maximum(of_keys);
  const Tensor b = formula.key_features(of_keys, maximum, 0);
  const Tensor s = b.transpose(-2, -1).matmul(to_compute_type(v));
  MixerState state{at::cat({s, b.sum(2).unsqueeze(-1)}, -1), {}};
  if (maximum.defined()) state.logarithm = maximum.unsqueeze(-1);
  if (change) change(state);
  const Tensor common = maximum.defined() ? state.logarithm.squeeze(-1) : Tensor();
  const Tensor products =
      formula.query_features(values(q, Side::query), common).matmul(state.values);
  const std::int64_t columns = v.size(3);
  const Tensor numerators = products.narrow(-1, 0, columns);
  const Tensor m = formula.denominator(products.narrow(-1, columns, 1));
  return (m.defined() ? numerators / m : numerators).to(v.scalar_type());
}

Tensor linear_attention_rows(const FeatureMapPtr& map, const Tensor& q, const Tensor& k,
                             const TokenGrid& grid, const Normaliser& normaliser,
                             std::int64_t first, std::int64_t count) {
  const LinearSums formula(map, normaliser, grid);
  const Tensor u_k = map->network(to_compute_type(k), Side::key);
  const Tensor u_q = map->network(to_compute_type(q.narrow(2, first, count)), Side::query);
  const Tensor values = formula.values(u_q, Side::query, first);
  // Wide maps of many keys are never held at once: one pass for the maxima, one for the columns.
  Tensor whole;  // of all keys, where they are one chunk
  const auto for_keys = [&](const auto& body) {
    for_token_chunks(k.size(2), ops::chunk_tokens(values.size(-1)),
                     [&](std::int64_t begin, std::int64_t number) {
                       if (whole.defined()) return body(begin, whole);
                       const Tensor keys =
                           formula.values(u_k.narrow(2, begin, number), Side::key, begin);
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
