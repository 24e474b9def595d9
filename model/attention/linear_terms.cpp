#include "model/attention/linear_terms.h"

#include <ATen/ATen.h>

#include <vector>

namespace hydrascope::model {

using at::Tensor;

bool logarithmic(const FeatureMap& map) { return map.values() == FeatureMap::Values::logarithms; }

Tensor chunk_of(const Tensor& x, std::int64_t first, std::int64_t count) {
  return to_compute_type(x.narrow(2, first, count));
}

Tensor query_features(const FeatureMap& map, const Tensor& values, const Tensor& maximum) {
  if (!logarithmic(map)) return values;
  const Tensor shifted = values + maximum.unsqueeze(2);
  return (shifted - shifted.detach().amax(-1, /*keepdim=*/true)).exp();
}

Tensor times_column(const Tensor& a, const Tensor& z) { return a.matmul(z.unsqueeze(-1)); }

bool divides(const FeatureMap& map, const Normaliser& normaliser) {
  return logarithmic(map) || normaliser.rule != Normaliser::Rule::none;
}

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

Tensor normalise(const Tensor& numerator, const Tensor& m) {
  return m.defined() ? numerator / m : numerator;
}

Tensor delta_of(const Tensor& g, const Tensor& y, const Tensor& m, const Tensor& az,
                const FeatureMap& map, const Normaliser& normaliser) {
  const Tensor delta = (g * y).sum(-1, /*keepdim=*/true) / m;
  if (logarithmic(map) || normaliser.rule != Normaliser::Rule::signed_clamp) return delta;
  return delta.masked_fill(az.abs() < normaliser.eps, 0);
}

Tensor to_values_gradient(const FeatureMap& map, const Tensor& features, const Tensor& gradient) {
  return logarithmic(map) ? features * gradient : gradient;
}

void LinearProblem::save(torch::autograd::AutogradContext& context) const {
  context.saved_data["map"] = c10::IValue::make_capsule(map);
  context.saved_data["grid"] = std::vector<std::int64_t>{grid.num_prefix, grid.rows, grid.columns,
                                                         grid.overview_rows, grid.overview_columns};
  context.saved_data["rule"] = static_cast<std::int64_t>(normaliser.rule);
  context.saved_data["eps"] = normaliser.eps;
}

LinearProblem LinearProblem::load(torch::autograd::AutogradContext& context) {
  const auto sizes = context.saved_data["grid"].toIntVector();
  return {c10::static_intrusive_pointer_cast<FeatureMap>(context.saved_data["map"].toCapsule()),
          {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]},
          {static_cast<Normaliser::Rule>(context.saved_data["rule"].toInt()),
           context.saved_data["eps"].toDouble()}};
}

torch::autograd::variable_list LinearProblem::gradients(Tensor dq, Tensor dk, Tensor dv,
                                                        const FeatureGradients& parameters) {
  torch::autograd::variable_list list{std::move(dq), std::move(dk), std::move(dv)};
  for (Tensor& gradient : parameters.gradients()) list.push_back(std::move(gradient));
  list.resize(list.size() + 3);
  return list;
}

}  // namespace hydrascope::model
