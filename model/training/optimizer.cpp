#include "model/training/optimizer.h"

#include "kernels/error.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <unordered_map>

namespace hydrascope::model::training {
namespace {

/// The fused kernels walk over memory, so a gradient needs its parameter's layout.
at::Tensor gradient_laid_out_as(const at::Tensor& parameter) {
  const at::Tensor& gradient = parameter.grad();
  if (gradient.strides() == parameter.strides()) return gradient;
  return at::empty_like(parameter).copy_(gradient);
}

}  // namespace

Optimizer::Optimizer(std::vector<ParameterGroup> groups, OptimizerOptions options)
    : groups_(std::move(groups)), options_(options) {
  const at::NoGradGuard no_grad;
  for (const ParameterGroup& group : groups_) {
    std::vector<Slot>& slots = slots_.emplace_back();
    for (const auto& [name, parameter] : group.parameters) {
      Slot& slot = slots.emplace_back();
      const bool is_sgd = options_.kind == OptimizerKind::sgd;
      if (is_sgd && options_.momentum == 0) continue;
      slot.first = at::zeros_like(parameter);
      if (is_sgd) continue;
      slot.second = at::zeros_like(parameter);
      slot.step = at::zeros({}, parameter.options().dtype(at::kFloat));
    }
  }
}

void Optimizer::step(double learning_rate) {
  const at::NoGradGuard no_grad;
  for (std::size_t index = 0; index < groups_.size(); ++index) {
    const ParameterGroup& group = groups_[index];
    std::vector<at::Tensor> parameters, gradients, first, second, steps;
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      const at::Tensor& parameter = group.parameters[i].second;
      if (!parameter.grad().defined()) continue;
      parameters.push_back(parameter);
      gradients.push_back(gradient_laid_out_as(parameter));
      const Slot& slot = slots_[index][i];
      if (slot.first.defined()) first.push_back(slot.first);
      second.push_back(slot.second);
      steps.push_back(slot.step);
    }
    if (parameters.empty()) continue;
    const double rate = learning_rate * group.learning_rate_scale;
    if (options_.kind == OptimizerKind::adamw) {
      at::_foreach_add_(steps, 1);
      at::_fused_adamw_(parameters, gradients, first, second, /*max_exp_avg_sqs=*/{}, steps, rate,
                        options_.betas[0], options_.betas[1], group.weight_decay, options_.eps,
                        /*amsgrad=*/false, /*maximize=*/false);
    } else {
      // A momentum of zeros makes the first step's momentum the gradient alone.
      at::_fused_sgd_(parameters, gradients, first, group.weight_decay, options_.momentum, rate,
                      /*dampening=*/0.0, /*nesterov=*/true, /*maximize=*/false,
                      /*is_first_step=*/false);
    }
  }
}

void Optimizer::zero_grad() {
  for (const at::Tensor& parameter : parameters()) parameter.mutable_grad().reset();
}

std::vector<at::Tensor> Optimizer::parameters() const {
  std::vector<at::Tensor> all;
  for (auto& [name, parameter] : named_parameters()) all.push_back(std::move(parameter));
  return all;
}

NamedTensors Optimizer::named_parameters() const {
  NamedTensors all;
  for (const ParameterGroup& group : groups_)
    all.insert(all.end(), group.parameters.begin(), group.parameters.end());
  return all;
}

NamedTensors Optimizer::state() const {
  NamedTensors named;
  for (std::size_t index = 0; index < groups_.size(); ++index) {
    for (std::size_t i = 0; i < groups_[index].parameters.size(); ++i) {
      const std::string& name = groups_[index].parameters[i].first;
      const Slot& slot = slots_[index][i];
      if (options_.kind == OptimizerKind::sgd) {
        if (slot.first.defined()) named.emplace_back("momentum_buffer." + name, slot.first);
      } else {
        named.emplace_back("exp_avg." + name, slot.first);
        named.emplace_back("exp_avg_sq." + name, slot.second);
        named.emplace_back("step." + name, slot.step);
      }
    }
  }
  return named;
}

void Optimizer::load_state(const NamedTensors& state) {
  copy_named(state, this->state(), "the optimizer's state");
}

void copy_named(const NamedTensors& source, const NamedTensors& destination,
                const std::string& subject) {
  const at::NoGradGuard no_grad;
  const std::unordered_map<std::string, at::Tensor> by_name(source.begin(), source.end());
  std::string unfit;
  for (const auto& [name, tensor] : destination) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      unfit += "\n  " + name + ": missing";
    } else if (found->second.sizes() != tensor.sizes()) {
      unfit += "\n  " + name + ": expected " + c10::str(tensor.sizes()) + ", found " +
               c10::str(found->second.sizes());
    }
  }
  if (!unfit.empty()) {
    throw Error(ErrorCode::failed, "tensors that are missing or do not fit:" + unfit, subject,
                "resume with the model and the options the run was started with");
  }
  for (const auto& [name, tensor] : destination) tensor.copy_(by_name.at(name));
}

double clip_gradients(const std::vector<at::Tensor>& parameters, double max_norm) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters)
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  if (gradients.empty()) return 0;
  const double norm = at::stack(at::_foreach_norm(gradients)).to(at::kDouble).norm().item<double>();
  if (max_norm > 0 && norm > max_norm) at::_foreach_mul_(gradients, max_norm / norm);
  return norm;
}

}  // namespace hydrascope::model::training
