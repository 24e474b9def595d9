// The terms of linear attention that its bidirectional and its causal form share.
#pragma once

#include "model/attention/feature_recomputation.h"
#include "model/attention/linear_attention.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>

namespace hydrascope::model {

bool logarithmic(const FeatureMap& map);

/// Tokens first .. first + count of x (B, H, N, d), in the type of the computation.
at::Tensor chunk_of(const at::Tensor& x, std::int64_t first, std::int64_t count);

/// What queries multiply with the sums of a state: the features, or
/// a = exp(U + M - max_f(U + M)) with maxima that are constants of the backward pass.
at::Tensor query_features(const FeatureMap& map, const at::Tensor& values,
                          const at::Tensor& maximum);

/// a (B, H, n, F) times z (B, H, F) -> (B, H, n, 1).
at::Tensor times_column(const at::Tensor& a, const at::Tensor& z);

/// Is there a division at all?
bool divides(const FeatureMap& map, const Normaliser& normaliser);

/// m (B, H, n, 1) from a.z; undefined when there is no division.
at::Tensor denominator(const at::Tensor& az, const FeatureMap& map, const Normaliser& normaliser);

/// numerator / m, or the numerator when m is undefined.
at::Tensor normalise(const at::Tensor& numerator, const at::Tensor& m);

/// delta_i = (g_i . y_i) / m_i = -dL/d(a_i . z); 0 where the clamp made m a constant.
at::Tensor delta_of(const at::Tensor& g, const at::Tensor& y, const at::Tensor& m,
                    const at::Tensor& az, const FeatureMap& map, const Normaliser& normaliser);

/// dL/d(values) from dL/d(features): the features are exp(values - constant) or the values.
at::Tensor to_values_gradient(const FeatureMap& map, const at::Tensor& features,
                              const at::Tensor& gradient);

/// What an autograd function keeps beside its tensors.
struct LinearProblem {
  FeatureMapPtr map;
  TokenGrid grid;
  Normaliser normaliser;

  void save(torch::autograd::AutogradContext& context) const;
  static LinearProblem load(torch::autograd::AutogradContext& context);
  /// In the order of the inputs: q, k, v, the map's parameters, then map, grid, normaliser.
  static torch::autograd::variable_list gradients(at::Tensor dq, at::Tensor dk, at::Tensor dv,
                                                  const FeatureGradients& parameters);
};

}  // namespace hydrascope::model
