// Learning from labels, and from a teacher where there is one.
#pragma once

#include "model/training/mixup.h"
#include "model/training/training_task.h"
#include "model/vision_transformer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace hydrascope::model::training {

class ClassificationTask final : public LossTask {
 public:
  /// The teacher's logits (B, C) for a batch as the student sees it; for a batch of views, the
  /// logits of the views' parts. Empty: no teacher. A distilled model learns the labels with its
  /// class token and the teacher with its distillation token; other models learn both with their
  /// only head.
  using Teacher = std::function<at::Tensor(const at::Tensor& images)>;

  /// `rank` keeps the mixing of two processes apart; views are not mixed.
  ClassificationTask(VisionTransformerImpl& model, ClassificationOptions options, Teacher teacher,
                     int rank);
  StepLoss loss(const Batch& batch, std::int64_t step) override;

 private:
  VisionTransformerImpl& model_;
  ClassificationOptions options_;
  Teacher teacher_;
  std::uint64_t rank_;
};

}  // namespace hydrascope::model::training
