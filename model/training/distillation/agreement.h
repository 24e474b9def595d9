// How often a student gives the teacher's answer, on images that nothing was trained on.
#pragma once

#include "model/training/autocast.h"
#include "model/training/data/batch_loader.h"
#include "model/training/distillation/conversion_history.h"
#include "model/training/distillation/teacher.h"
#include "model/training/parallel/process_group.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace hydrascope::model::training {

/// The held-out images with the teacher's logits, computed once.
class AgreementMeter {
 public:
  /// `images` are this rank's; what is measured is over those of all. All must outlive the meter.
  /// With `sizes` the student looks at the images enlarged (or reduced) to each of these, at fewer
  /// of them the larger the size, and what is measured is the mean over the sizes. Throws
  /// Error(failed) for a teacher whose logits are not finite.
  AgreementMeter(Teacher& teacher, const HeldOutImages& images, ProcessGroup& group,
                 c10::Device device, Autocast autocast, std::vector<image::Size> sizes = {});
  /// The student is evaluated as it is; it goes back to the mode it was in.
  [[nodiscard]] Agreement measure(VisionTransformerImpl& student);

 private:
  [[nodiscard]] Batch batch(std::int64_t first) const;
  /// Sums over this rank's images, float64 (3): same class, divergence, images.
  [[nodiscard]] at::Tensor sums_at(VisionTransformerImpl& student,
                                   std::optional<image::Size> size) const;

  const HeldOutImages& images_;
  ProcessGroup& group_;
  c10::Device device_;
  Autocast autocast_;
  std::vector<image::Size> sizes_;
  std::vector<at::Tensor> wanted_;  ///< logits by batch
};

}  // namespace hydrascope::model::training
