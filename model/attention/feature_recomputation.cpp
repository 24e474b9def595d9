#include "model/attention/feature_recomputation.h"

#include "kernels/error.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

namespace hydrascope::model {

using at::Tensor;

bool wants_gradient(at::ArrayRef<Tensor> tensors) {
  return at::GradMode::is_enabled() &&
         std::ranges::any_of(tensors, [](const Tensor& t) { return t.requires_grad(); });
}

void refuse_second_derivatives() {
  if (at::GradMode::is_enabled()) {
    throw Error(ErrorCode::failed, "has no second derivative in its memory-efficient form",
                "attention", "Kernels::reference has");
  }
}

FeatureGradients::FeatureGradients(const FeatureMap& map)
    : parameters_(map.parameters()), gradients_(parameters_.size()) {}

std::vector<Tensor> FeatureGradients::gradients() const {
  std::vector<Tensor> list = gradients_;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].defined()) list[i] = list[i].to(parameters_[i].scalar_type());
  }
  return list;
}

FeatureRecomputation::FeatureRecomputation(const FeatureMap& map, const Tensor& x, Side side,
                                           const TokenSpan& span) {
  const at::AutoGradMode record(true);
  x_ = x.detach().requires_grad_();
  values_ = map(x_, side, span);
}

Tensor FeatureRecomputation::backward(const Tensor& gradient, FeatureGradients& parameters) {
  std::vector<Tensor> inputs{x_};
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < parameters.parameters_.size(); ++i) {
    if (!parameters.parameters_[i].requires_grad()) continue;
    inputs.push_back(parameters.parameters_[i]);
    positions.push_back(i);
  }
  const auto gradients =
      torch::autograd::grad({values_}, inputs, {gradient}, /*retain_graph=*/false,
                            /*create_graph=*/false, /*allow_unused=*/true);
  values_ = Tensor();
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (!gradients[i + 1].defined()) continue;
    const Tensor part = to_compute_type(gradients[i + 1]);
    Tensor& sum = parameters.gradients_[positions[i]];
    sum = sum.defined() ? sum + part : part;
  }
  return gradients[0].defined() ? gradients[0] : at::zeros_like(x_);
}

}  // namespace hydrascope::model
