// Last stages of a conversion: the student end to end, its logits and what each block makes of the
// image against the teacher's (Hinton et al. 2015, arXiv 1503.02531; features as in Romero et al.
// 2015, arXiv 1412.6550, without a regressor: both have the same width).
#pragma once

#include "model/training/distillation/teacher.h"
#include "model/training/mixup.h"
#include "model/training/trainer.h"

#include <cstdint>

namespace hydrascope::model::training {

struct FinetuneOptions {
  double temperature = 1;    ///< of the logits; their KL is multiplied by its square
  double logits_weight = 1;  ///< of that KL
  double blocks_weight = 1;  ///< of the mean over the blocks of the relative error of its tokens
  double cls_weight = 0;     ///< beside which that of the class token counts so much more
  /// Blocks before it are the teacher's own, run once for both.
  std::int64_t first_layer = 0;
  MixupOptions mixup = {};  ///< the teacher says what a mixed image shows
  std::uint64_t seed = 42;  ///< of mixing: the batch and the rank decide the rest
  int rank = 0;
};

class FinetuneTask final : public TrainingTask {
 public:
  FinetuneTask(Teacher& teacher, VisionTransformerImpl& student, FinetuneOptions options);
  /// Parts "kl" and "blocks", unweighted.
  StepLoss loss(const Batch& batch, std::int64_t step) override;

 private:
  [[nodiscard]] at::Tensor mixed(const Batch& batch) const;

  Teacher& teacher_;
  VisionTransformerImpl& student_;
  FinetuneOptions options_;
};

/// The stage behind it: the student learns to see in large pictures, and in scenes, what the teacher
/// sees in each of their parts at its own size. Touvron et al. 2019, arXiv 1906.06423, found that a
/// model must be shown the sizes that it shall work at; distillation needs no labels for it.
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
