// How often a student gives the teacher's answer, on images that no training used.
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

/// The held-out images with the teacher's answers, computed once if there is room for them.
class AgreementMeter {
 public:
  /// `images` are this rank's; measures are over all ranks' images. All arguments must outlive the
  /// meter. With sizes in `loader.resolutions` the student looks at the images enlarged (or
  /// reduced) to each size and, with backgrounds, in scenes of each size; a larger size gets fewer
  /// images. A measure is then the mean over these views. Without sizes the student's embedding and
  /// its first `shared_layers` blocks are the teacher's: their tokens are computed once and kept, if
  /// there is room for them. With `of_exits` a measure is the mean over the student's exits, whose
  /// trunk is the teacher's. Features of another grid than the teacher's are brought to it
  /// (`features_on`), and patches of scenes are not compared. Throws Error(failed) for a teacher whose
  /// answers are not finite.
  AgreementMeter(Teacher& teacher, const HeldOutImages& images, ProcessGroup& group,
                 c10::Device device, Autocast autocast, const LoaderOptions& loader = {},
                 std::int64_t shared_layers = 0, bool of_exits = false);
  /// Evaluates the student in its present state and leaves it in the mode it was in.
  [[nodiscard]] Agreement measure(VisionTransformerImpl& student);

 private:
  /// A kind of the student's inputs.
  struct View {
    std::optional<image::Size> size;
    bool is_scene = false;
  };
  [[nodiscard]] Batch batch(std::int64_t first) const;
  /// Whether tokens of all images may be kept.
  [[nodiscard]] bool has_room_for_tokens() const;
  /// The teacher's answers to the images of batch `number`.
  [[nodiscard]] at::Tensor wanted_of(std::size_t number);
  /// The student's answers to batch `number` as `view` shows it, one tensor for each exit that is
  /// measured.
  std::vector<at::Tensor> found_in(VisionTransformerImpl& student, std::size_t number,
                                   const View& view, std::size_t& scenes);
  /// The first of these images, as many as the size allows, as the student sees them; `scenes`
  /// counts the scenes made.
  [[nodiscard]] at::Tensor shown(const at::Tensor& images, const View& view, std::size_t& scenes);
  /// Sums over this rank's images, float64 (4): of logits the same class, divergence, images, images;
  /// of features the cosines of the pooled vectors and of the patches, images, images with patches.
  [[nodiscard]] at::Tensor sums_at(VisionTransformerImpl& student, const View& view);

  Teacher& teacher_;
  const HeldOutImages& images_;
  ProcessGroup& group_;
  c10::Device device_;
  Autocast autocast_;
  AugmentOptions augment_;
  bool of_exits_;
  ResolutionOptions resolutions_;
  ReadablePictures backgrounds_;
  std::vector<View> views_;
  std::int64_t shared_layers_;
  TokenGrid grid_ = {};             ///< of the shared tokens
  std::vector<at::Tensor> shared_;  ///< tokens (B, N, D) by batch; none where nothing is shared
  std::vector<at::Tensor> wanted_;  ///< answers by batch; none where there is no room
};

}  // namespace hydrascope::model::training
