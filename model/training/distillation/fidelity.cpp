#include "model/training/distillation/fidelity.h"

#include "model/training/distillation/matching_losses.h"
#include "model/training/distillation/outputs_task.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace hydrascope::model::training {

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
