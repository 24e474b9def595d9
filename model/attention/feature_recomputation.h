// Backward through a feature map whose features were not stored: they are made again and
// differentiated at once, chunk by chunk.
#pragma once

#include "model/attention/feature_map.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace hydrascope::model {

/// Does autograd record, and does one of `tensors` need a gradient?
bool wants_gradient(at::ArrayRef<at::Tensor> tensors);

/// Sums the gradients of a map's parameters over chunks.
class FeatureGradients {
 public:
  explicit FeatureGradients(const FeatureMap& map);
  /// One for each of `map.parameters()`, in its dtype; undefined where none is needed.
  [[nodiscard]] const std::vector<at::Tensor>& gradients() const noexcept { return gradients_; }

 private:
  friend class FeatureRecomputation;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> gradients_;
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
