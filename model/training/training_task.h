// A training task decides about the loss: it computes the loss of a batch and adds its gradients.
#pragma once

#include "model/training/autocast.h"
#include "model/training/data/batch_loader.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

namespace hydrascope::model::training {

/// The loss of one batch.
struct StepLoss {
  at::Tensor loss;                               ///< scalar, mean over the images
  std::map<std::string, at::Tensor> parts = {};  ///< detached scalars, for the log
};

/// One batch's part in an update.
struct StepPart {
  std::int64_t step = 0;  ///< the update's number
  double weight = 1;      ///< the factor of the batch's gradients
  Autocast autocast = Autocast::off;
};

class TrainingTask {
 public:
  virtual ~TrainingTask() = default;
  /// Adds `part.weight` times the gradients of a batch, which lies on the trainer's device, to the
  /// gradients of the parameters. The forward passes run under `part.autocast`, the backward passes
  /// without. Returns the loss without the weight and without a graph.
  virtual StepLoss accumulate(const Batch& batch, const StepPart& part) = 0;

 protected:
  TrainingTask() = default;
  TrainingTask(const TrainingTask&) = default;
  TrainingTask& operator=(const TrainingTask&) = default;
};

/// A task whose loss is one graph: one forward pass, one backward pass.
class LossTask : public TrainingTask {
 public:
  /// Differentiable. `step` is the update's number.
  virtual StepLoss loss(const Batch& batch, std::int64_t step) = 0;
  StepLoss accumulate(const Batch& batch, const StepPart& part) final;
};

}  // namespace hydrascope::model::training
