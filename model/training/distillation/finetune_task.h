// A last stage of a conversion: the student learns end to end, its answers and each block's tokens
// against the teacher's (logits: Hinton et al. 2015, arXiv 1503.02531; blocks as in Romero et al. 2015,
// arXiv 1412.6550, without a regressor: both have the same width; features of a model without classes
// after the alignment of attention, as ViT-AdaLA orders its stages: Li et al. 2026, arXiv 2603.16063).
#pragma once

#include "model/training/distillation/teacher.h"
#include "model/training/mixup.h"
#include "model/training/training_task.h"

#include <cstdint>
#include <vector>

namespace hydrascope::model::training {

struct FinetuneOptions {
  double answers_weight = 1;  ///< weight of the logits' KL, or of the features' distance
  double blocks_weight = 1;   ///< weight of the tokens' relative error, its mean over the blocks
  /// Blocks before it are the teacher's own, run once for both.
  std::int64_t first_layer = 0;
  MixupOptions mixup = {};  ///< the teacher judges the mixed images
  std::uint64_t seed = 42;  ///< for mixing; the batch and the rank decide the rest
  int rank = 0;
};

class FinetuneTask final : public LossTask {
 public:
  FinetuneTask(Teacher& teacher, VisionTransformerImpl& student, FinetuneOptions options);
  /// Parts, unweighted: "blocks", and of logits "kl"; of features "pooled", the cosine distance of the
  /// pooled vectors, and "gram", `gram_error` of the patches.
  StepLoss loss(const Batch& batch, std::int64_t step) override;

 private:
  [[nodiscard]] at::Tensor mixed(const Batch& batch) const;

  Teacher& teacher_;
  VisionTransformerImpl& student_;
  FinetuneOptions options_;
  std::vector<std::int64_t> layers_;  ///< whose tokens the teacher gives
};

/// The stage after it: the student learns to find in large pictures, and in scenes, the classes
/// that the teacher sees in each of their parts at its own size. Touvron et al. 2019, arXiv
/// 1906.06423, found that a model must be shown the sizes that it shall work at; distillation needs
/// no labels. Minimises KL(t | student(view)), t the mean of the teacher's probabilities for the
/// view's parts. A pooled vector learns the mean of the parts' unit vectors. If one
/// picture fills the view, the means of the patches that a teacher's patch covers learn that patch:
/// their cosine distance, which no blocks' errors hold here, and `gram_error`.
class SizesTask final : public LossTask {
 public:
  SizesTask(Teacher& teacher, VisionTransformerImpl& student)
      : teacher_(teacher), student_(student) {}
  /// `batch` has views.
  StepLoss loss(const Batch& batch, std::int64_t step) override;

 private:
  Teacher& teacher_;
  VisionTransformerImpl& student_;
};

}  // namespace hydrascope::model::training
