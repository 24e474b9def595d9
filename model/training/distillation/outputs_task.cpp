#include "model/training/distillation/outputs_task.h"

#include "model/training/distillation/matching_losses.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
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
    : LayersTask(teacher, student, std::move(layers), attention_parameters),
      class_weight_(cls_weight) {}

StepLoss OutputsTask::loss(const Batch& batch, std::int64_t) {
  const TeacherAttention attention = look(batch);
  const std::int64_t class_tokens = num_class_tokens(teacher().config());
  std::size_t layer = 0;
  const auto next = [&]() -> at::Tensor {
    if (layer == attention.layers.size()) return {};
    const AttentionOutputs outputs =
        attention_outputs(teacher(), student(), attention.layers[layer++], attention.grid);
    return token_error(outputs.student, outputs.teacher, class_tokens, class_weight_);
  };
  StepLoss cost;
  cost.loss = sum_differentiated_at_once(parameters(), next);
  cost.parts["error"] = cost.loss.detach() / static_cast<double>(attention.layers.size());
  return cost;
}

std::vector<double> attention_errors(Teacher& teacher, VisionTransformerImpl& student,
                                     const std::vector<std::int64_t>& layers,
                                     const HeldOutImages& images, std::int64_t most_images,
                                     c10::Device device, Autocast autocast, ProcessGroup& group) {
  constexpr std::int64_t kBatch = 32;
  const at::NoGradGuard no_grad;
  // One sum per layer, and the number of images.
  at::Tensor sums = at::zeros({std::ssize(layers) + 1}, at::kDouble);
  const std::int64_t count =
      std::min((most_images + group.world_size() - 1) / group.world_size(), images.count());
  for (std::int64_t first = 0; first < count; first += kBatch) {
    const std::int64_t size = std::min(kBatch, count - first);
    const at::Tensor batch = images.batch(first, size).images.to(device);
    const AutocastScope scope(autocast, device.type());
    const TeacherAttention attention = teacher.look_at_attention(batch, layers);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const AttentionOutputs outputs =
          attention_outputs(teacher, student, attention.layers[i], attention.grid);
      sums[static_cast<std::int64_t>(i)] +=
          static_cast<double>(size) *
          relative_error(outputs.student, outputs.teacher).item<double>();
    }
    sums[-1] += size;
  }
  sums = sums.to(device);
  group.sum({sums});
  sums = sums.cpu();
  sums /= sums[-1].clone().clamp_min(1);
  const double* sum = sums.const_data_ptr<double>();
  return {sum, sum + layers.size()};
}

}  // namespace hydrascope::model::training
