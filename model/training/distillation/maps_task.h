// First stage of a conversion: learned feature maps imitate the teacher's attention rows on the
// teacher's own q and k, before anything else is touched (Zhang et al. 2024, arXiv 2402.04347,
// section 4.2). All layers learn in every step, and share nothing: the backward pass of each piece
// of the loss runs as soon as the piece is known, so memory is the memory of one piece.
#pragma once

#include "model/training/distillation/teacher.h"
#include "model/training/training_task.h"

#include <cstdint>
#include <vector>

namespace hydrascope::model::training {

struct MapsOptions {
  std::int64_t query_rows = 49;  ///< each image's, with the class token's row
  std::int64_t row_chunk = 64;   ///< rows whose N weights are in memory at once
  std::uint64_t seed = 42;       ///< for the rows, which differ in every step
};

class MapsTask final : public TrainingTask {
 public:
  /// `layers` are ConvertedLayers::maps, whose mechanisms' parameters alone learn; teacher and
  /// student must outlive the task.
  MapsTask(Teacher& teacher, VisionTransformerImpl& student, std::vector<std::int64_t> layers,
           MapsOptions options);
  /// Mean cross-entropy of the layers; part "kl" is the part of it that a student can lose.
  StepLoss accumulate(const Batch& batch, const StepPart& part) override;

 private:
  Teacher& teacher_;
  VisionTransformerImpl& student_;
  std::vector<std::int64_t> layers_;
  MapsOptions options_;
};

}  // namespace hydrascope::model::training
