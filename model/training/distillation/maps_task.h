// First stage of a conversion: learned feature maps imitate the teacher's attention rows on the
// teacher's own q and k, all layers at once, before anything else is touched (Zhang et al. 2024,
// arXiv 2402.04347, section 4.2).
#pragma once

#include "model/training/distillation/layers_task.h"

#include <cstdint>
#include <vector>

namespace hydrascope::model::training {

struct MapsOptions {
  std::int64_t query_rows = 49;  ///< of an image, the class token's among them
  std::int64_t row_chunk = 64;   ///< rows whose N weights are in memory at once
  std::uint64_t seed = 42;       ///< of the rows, others in every step
};

class MapsTask final : public LayersTask {
 public:
  /// `layers` is what ConvertedLayers::maps holds; teacher and student must outlive the task.
  MapsTask(Teacher& teacher, VisionTransformerImpl& student, std::vector<std::int64_t> layers,
           MapsOptions options);
  /// Mean cross-entropy of the layers; part "kl" is what of it a student can lose.
  StepLoss loss(const Batch& batch, std::int64_t step) override;

 private:
  MapsOptions options_;
};

}  // namespace hydrascope::model::training
