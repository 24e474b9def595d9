// A conversion's last stage: the student learns to see in large pictures, and in scenes, what the
// teacher sees in each of their parts at its own size. Touvron et al. 2019, arXiv 1906.06423, found
// that a model must be shown the sizes that it shall work at; distillation needs no labels for it.
#pragma once

#include "model/training/distillation/teacher.h"
#include "model/training/trainer.h"

namespace hydrascope::model::training {

/// Minimises KL(t | student(view)), t the mean of the teacher's probabilities for the view's parts.
class SizesTask final : public TrainingTask {
 public:
  SizesTask(Teacher& teacher, VisionTransformerImpl& student)
      : teacher_(teacher), student_(student) {}
  /// Of a batch with views.
  StepLoss loss(const Batch& batch, std::int64_t step) override;

 private:
  Teacher& teacher_;
  VisionTransformerImpl& student_;
};

}  // namespace hydrascope::model::training
