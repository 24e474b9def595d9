#include "model/training/distillation/outputs_task.h"

#include "model/training/distillation/immediate_gradient.h"
#include "model/training/distillation/matching_losses.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

namespace hydrascope::model::training {

AttentionOutputs attention_outputs(Teacher& teacher, VisionTransformerImpl& student,
                                   const TeacherAttention::Layer& layer, const TokenGrid& grid) {
  const std::int64_t count = num_compared_tokens(teacher.config(), layer.index, grid);
  const auto output = [&](VisionTransformerImpl& model, const at::Tensor& mixed) {
    return model.block(layer.index).attention().project_out(mixed.narrow(1, 0, count));
  };
  AttentionOutputs outputs;
  {
    const at::NoGradGuard no_grad;
    outputs.teacher = output(teacher.model(), layer.trace.output);
  }
  outputs.student =
      output(student, trace_attention(student, layer.index, layer.tokens, grid).output);
  return outputs;
}

OutputsTask::OutputsTask(Teacher& teacher, VisionTransformerImpl& student,
                         std::vector<std::int64_t> layers, double cls_weight)
    : teacher_(teacher), student_(student), layers_(std::move(layers)), class_weight_(cls_weight) {
  for (const std::int64_t layer : layers_) {
    for (auto& parameter : attention_parameters(student_, layer))
      parameters_.push_back(std::move(parameter));
  }
}

StepLoss OutputsTask::loss(const Batch& batch, std::int64_t) {
  const TeacherAttention attention = teacher_.look_at_attention(batch.images, layers_);
  const std::int64_t class_tokens = num_class_tokens(teacher_.config());
  std::size_t layer = 0;
  const auto next = [&]() -> at::Tensor {
    if (layer == attention.layers.size()) return {};
    const AttentionOutputs outputs =
        attention_outputs(teacher_, student_, attention.layers[layer++], attention.grid);
    return token_error(outputs.student, outputs.teacher, class_tokens, class_weight_);
  };
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : parameters_) tensors.push_back(tensor);
  StepLoss cost;
  cost.loss = sum_differentiated_at_once(tensors, next);
  cost.parts["error"] = cost.loss.detach() / static_cast<double>(attention.layers.size());
  return cost;
}

}  // namespace hydrascope::model::training
