#include "model/training/distillation/outputs_task.h"

#include "model/training/distillation/matching_losses.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

namespace hydrascope::model::training {

AttentionOutputs attention_outputs(Teacher& teacher, VisionTransformerImpl& student,
                                   std::int64_t layer, const at::Tensor& tokens,
                                   const TokenGrid& grid) {
  const std::int64_t count = num_compared_tokens(teacher.config(), layer, grid, teacher.target());
  const auto output = [&](VisionTransformerImpl& model) {
    return model.block(layer).attention().project_out(
        mix_tokens(model, layer, tokens, grid, count));
  };
  AttentionOutputs outputs;
  {
    const at::NoGradGuard no_grad;
    outputs.teacher = output(teacher.model());
  }
  outputs.student = output(student);
  return outputs;
}

OutputsTask::OutputsTask(Teacher& teacher, VisionTransformerImpl& student,
                         std::vector<std::int64_t> layers, double cls_weight)
    : teacher_(teacher), student_(student), layers_(std::move(layers)), class_weight_(cls_weight) {}

StepLoss OutputsTask::accumulate(const Batch& batch, const StepPart& part) {
  const c10::DeviceType device = batch.images.device().type();
  const TeacherPass seen = [&] {
    const AutocastScope scope(part.autocast, device);
    return teacher_.look(batch.images, layers_);
  }();
  const std::int64_t class_tokens = num_class_tokens(teacher_.config());
  StepLoss cost{at::zeros({}, batch.images.options())};
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    at::Tensor error;
    {
      const AutocastScope scope(part.autocast, device);
      const AttentionOutputs outputs =
          attention_outputs(teacher_, student_, layers_[i], seen.tokens[i], seen.grid);
      error = token_error(outputs.student, outputs.teacher, class_tokens, class_weight_);
    }
    (error * part.weight).backward();
    cost.loss += error.detach();
  }
  cost.parts["error"] = cost.loss / static_cast<double>(layers_.size());
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
    end_if_stopped(group);
    const std::int64_t size = std::min(kBatch, count - first);
    const at::Tensor batch = images.batch(first, size).images.to(device);
    const AutocastScope scope(autocast, device.type());
    const TeacherPass seen = teacher.look(batch, layers);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const AttentionOutputs outputs =
          attention_outputs(teacher, student, layers[i], seen.tokens[i], seen.grid);
      sums[static_cast<std::int64_t>(i)] +=
          static_cast<double>(size) *
          relative_error(outputs.student, outputs.teacher).item<double>();
    }
    sums[-1] += size;
  }
  group.sum({sums});
  sums /= sums[-1].clone().clamp_min(1);
  const double* sum = sums.const_data_ptr<double>();
  return {sum, sum + layers.size()};
}

}  // namespace hydrascope::model::training
