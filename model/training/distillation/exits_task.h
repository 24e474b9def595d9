// The stage that teaches a model's exits (model/class_branch.h) to give the model's own answers: the trunk
// stays as it is, and no label is needed (Elbayad et al. 2020, arXiv 1910.10073, section 3.2, with
// distillation in place of labels).
#pragma once

#include "model/training/distillation/teacher.h"
#include "model/training/training_task.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace hydrascope::model::training {

/// All exits of `student` on the tokens of `teacher`, whose trunk is the same.
struct ExitsPass {
  std::vector<ExitOutput> exits;  ///< in the order of the configuration
  at::Tensor logits;              ///< the teacher's (B, num_classes)
};
ExitsPass look_at_exits(Teacher& teacher, VisionTransformerImpl& student, const at::Tensor& images);

class ExitsTask final : public LossTask {
 public:
  ExitsTask(Teacher& teacher, VisionTransformerImpl& student)
      : teacher_(teacher), student_(student) {}
  /// The mean over the exits of KL(teacher | exit), part "kl", and of the cross-entropy between `stop` and
  /// whether the exit's class is the teacher's, part "stop".
  StepLoss loss(const Batch& batch, std::int64_t step) override;

 private:
  Teacher& teacher_;
  VisionTransformerImpl& student_;
};

}  // namespace hydrascope::model::training
