#include "model/training/distillation/exits_task.h"

#include "model/training/losses.h"

#include <ATen/ATen.h>

namespace hydrascope::model::training {

ExitsPass look_at_exits(Teacher& teacher, VisionTransformerImpl& student,
                        const at::Tensor& images) {
  const std::vector<std::int64_t>& exits = student.config().exits;
  std::vector<std::int64_t> layers;
  for (const std::int64_t exit : exits) layers.push_back(exit + 1);
  layers.push_back(teacher.config().depth);
  const TeacherPass seen = teacher.look(images, layers);
  const TokenGrid grid = student.grid_of(images);
  ExitsPass pass;
  pass.logits = seen.answers;
  for (std::size_t i = 0; i < exits.size(); ++i)
    pass.exits.push_back(student.look_at_exit(exits[i], seen.tokens[i], grid));
  return pass;
}

StepLoss ExitsTask::loss(const Batch& batch, std::int64_t) {
  const ExitsPass pass = look_at_exits(teacher_, student_, batch.images);
  at::Tensor kl = at::zeros({}, batch.images.options());
  at::Tensor stop = kl.clone();
  for (const ExitOutput& exit : pass.exits) {
    kl = kl + logit_divergence(exit.logits, pass.logits);
    const at::Tensor agrees = exit.logits.argmax(1).eq(pass.logits.argmax(1)).to(exit.stop.dtype());
    stop = stop + at::binary_cross_entropy_with_logits(exit.stop, agrees);
  }
  const auto count = static_cast<double>(pass.exits.size());
  kl = kl / count;
  stop = stop / count;
  return {kl + stop, {{"kl", kl.detach()}, {"stop", stop.detach()}}};
}

}  // namespace hydrascope::model::training
