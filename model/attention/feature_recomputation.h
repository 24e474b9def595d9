// Backward through a feature map whose features were not stored: they are made again and
// differentiated at once, chunk by chunk.
#pragma once

#include "model/attention/feature_map.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace hydrascope::model {

/// Does autograd record, and does one of `tensors` need a gradient?
bool wants_gradient(at::ArrayRef<at::Tensor> tensors);

/// Called by backward passes that treat sums over tokens as constants: throws Error(failed) when a
/// second derivative is being recorded, which would silently be wrong.
void refuse_second_derivatives();

/// Sums the gradients of a map's parameters over chunks.
class FeatureGradients {
 public:
  explicit FeatureGradients(const FeatureMap& map);
  /// One for each of `map.parameters()`, in its dtype; undefined where none is needed.
  [[nodiscard]] std::vector<at::Tensor> gradients() const;

 private:
  friend class FeatureRecomputation;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> gradients_;  ///< in the type of the computation: sums over chunks
};

/// map(x) with a graph of its own, away from the one that is running backward.
class FeatureRecomputation {
 public:
  FeatureRecomputation(const FeatureMap& map, const at::Tensor& x, Side side,
                       const TokenSpan& span);
  /// What the map gives; no graph.
  [[nodiscard]] at::Tensor values() const { return values_.detach(); }
  /// dL/dx for dL/d(values); adds to the parameters' gradients and drops the graph.
  at::Tensor backward(const at::Tensor& gradient, FeatureGradients& parameters);

 private:
  at::Tensor x_;
  at::Tensor values_;
};

}  // namespace hydrascope::model
