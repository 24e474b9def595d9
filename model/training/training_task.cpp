#include "model/training/training_task.h"

#include <ATen/ATen.h>

namespace hydrascope::model::training {

StepLoss LossTask::accumulate(const Batch& batch, const StepPart& part) {
  StepLoss cost;
  {
    const AutocastScope scope(part.autocast, batch.images.device().type());
    cost = loss(batch, part.step);
  }
  (cost.loss * part.weight).backward();
  cost.loss = cost.loss.detach();
  return cost;
}

}  // namespace hydrascope::model::training
