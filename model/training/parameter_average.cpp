#include "model/training/parameter_average.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

namespace hydrascope::model::training {

ParameterAverage::ParameterAverage(NamedTensors parameters, double decay, bool warmup)
    : parameters_(std::move(parameters)), decay_(decay), warmup_(warmup) {
  updates_ = at::zeros({}, at::kLong);
  for (const auto& [name, parameter] : parameters_)
    averages_.push_back(parameter.detach().to(at::kFloat, /*non_blocking=*/false, /*copy=*/true));
}

void ParameterAverage::update() {
  const at::NoGradGuard no_grad;
  const auto t = static_cast<double>(updates_.item<std::int64_t>());
  const double decay = warmup_ ? std::min(decay_, 1 - std::pow(1 + t, -2.0 / 3)) : decay_;
  std::vector<at::Tensor> values;
  for (const auto& [name, parameter] : parameters_) values.push_back(parameter.to(at::kFloat));
  at::_foreach_lerp_(averages_, values, 1 - decay);
  updates_.add_(1);
}

void ParameterAverage::swap() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor value = parameters_[i].second.clone();
    parameters_[i].second.copy_(averages_[i]);
    averages_[i].copy_(value);
  }
}

NamedTensors ParameterAverage::state() const {
  NamedTensors named;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    named.emplace_back("ema." + parameters_[i].first, averages_[i]);
  named.emplace_back("ema.updates", updates_);
  return named;
}

void ParameterAverage::load_state(const NamedTensors& state) {
  copy_named(state, this->state(), "the average's state");
}

NamedTensors state_of(const Optimizer& optimizer, const ParameterAverage* average) {
  NamedTensors tensors = optimizer.state();
  if (average == nullptr) return tensors;
  for (auto& tensor : average->state()) tensors.push_back(std::move(tensor));
  return tensors;
}

}  // namespace hydrascope::model::training
