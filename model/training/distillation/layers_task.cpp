#include "model/training/distillation/layers_task.h"

#include "model/autocast_guard.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstddef>
#include <utility>

namespace hydrascope::model::training {

LayersTask::LayersTask(Teacher& teacher, VisionTransformerImpl& student,
                       std::vector<std::int64_t> layers,
                       NamedTensors (*parameters_of)(const VisionTransformerImpl&, std::int64_t))
    : teacher_(teacher), student_(student), layers_(std::move(layers)) {
  for (const std::int64_t layer : layers_) {
    for (auto& parameter : parameters_of(student_, layer))
      parameters_.push_back(std::move(parameter));
  }
}

at::Tensor sum_differentiated_at_once(const NamedTensors& named, const NextPart& next) {
  std::vector<at::Tensor> parameters;
  for (const auto& [name, tensor] : named) parameters.push_back(tensor);
  at::Tensor sum;
  std::vector<at::Tensor> gradients(parameters.size());
  for (at::Tensor part = next(); part.defined(); part = next()) {
    const at::Tensor value = part.detach();
    sum = sum.defined() ? sum + value : value;
    if (!part.requires_grad()) continue;
    // As after a task's loss: the backward pass runs in the types of the forward pass, and what a
    // mechanism sums in float32 stays so.
    const AutocastGuard off(part.device().type(), {});
    const std::vector<at::Tensor> of_part =
        torch::autograd::grad({part}, parameters, /*grad_outputs=*/{}, /*retain_graph=*/false,
                              /*create_graph=*/false, /*allow_unused=*/true);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!of_part[i].defined()) continue;
      gradients[i] = gradients[i].defined() ? gradients[i] + of_part[i] : of_part[i];
    }
  }
  // Terms of value 0 whose derivatives are the gradients.
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    sum = sum + (gradients[i] * (parameters[i] - parameters[i].detach())).sum();
  }
  return sum;
}

}  // namespace hydrascope::model::training
