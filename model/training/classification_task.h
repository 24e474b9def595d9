// Learning from labels, and from a teacher where there is one.
#pragma once

#include "model/training/mixup.h"
#include "model/training/training_task.h"
#include "model/vision_transformer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace hydrascope::model::training {

struct ClassificationOptions {
  MixupOptions mixup;  ///< its label smoothing also holds without mixing
  std::uint64_t seed = 42;
  double drop_path_rate = 0;      ///< as in ForwardOptions
  bool recompute_blocks = false;  ///< as in ForwardOptions
  // Distillation by a teacher, as in DeiT (arXiv 2012.12877, equations 2 and 3).
  bool distillation_is_hard = true;
  double distillation_weight = 0.5;  ///< alpha
  double temperature = 1;            ///< tau, for the soft form
};

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
