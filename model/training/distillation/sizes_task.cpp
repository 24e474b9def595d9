#include "model/training/distillation/sizes_task.h"

#include "model/training/losses.h"

#include <ATen/ATen.h>

namespace hydrascope::model::training {

StepLoss SizesTask::loss(const Batch& batch, std::int64_t) {
  const std::int64_t views = batch.views.size(0);
  const at::Tensor wanted =
      to_compute_type(teacher_.logits(batch.images)).softmax(-1).unflatten(0, {views, -1}).mean(1);
  StepLoss cost;
  cost.loss = divergence_from(student_.forward(batch.views), wanted);
  return cost;
}

}  // namespace hydrascope::model::training
