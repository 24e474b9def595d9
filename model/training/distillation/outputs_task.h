// Second stage of a conversion: each converted layer's attention, projections and all, learns to
// give the output of the teacher's attention on the teacher's input. The layers share nothing: each
// has a backward pass of its own, so memory is the memory of one layer.
#pragma once

#include "model/training/autocast.h"
#include "model/training/data/batch_loader.h"
#include "model/training/distillation/teacher.h"
#include "model/training/parallel/process_group.h"
#include "model/training/training_task.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

namespace hydrascope::model::training {

class OutputsTask final : public TrainingTask {
 public:
  /// `cls_weight`: weight of the class token's error beside the error of all tokens. Teacher and
  /// student must outlive the task.
  OutputsTask(Teacher& teacher, VisionTransformerImpl& student, std::vector<std::int64_t> layers,
              double cls_weight);
  /// Sum over the layers of the relative error of attention's output (after `proj`), in the last
  /// block at the tokens that are read. Part "error" is the mean over the layers.
  StepLoss accumulate(const Batch& batch, const StepPart& part) override;

 private:
  Teacher& teacher_;
  VisionTransformerImpl& student_;
  std::vector<std::int64_t> layers_;
  double class_weight_;
};

/// The outputs (B, n, D) of teacher's and student's attention in `layer`, after `proj`, on the
/// teacher's input `tokens`; n as in `run_block`.
struct AttentionOutputs {
  at::Tensor teacher;
  at::Tensor student;
};
AttentionOutputs attention_outputs(Teacher& teacher, VisionTransformerImpl& student,
                                   std::int64_t layer, const at::Tensor& tokens,
                                   const TokenGrid& grid);

/// How close each converted layer's attention is to the teacher's: for each of `layers` (ascending)
/// the mean over the images of |y - t|^2 / |t|^2. y and t are the outputs of the student's and the
/// teacher's attention (after `proj`) on the teacher's tokens, in the last block at the tokens that
/// are read. The first `most_images` images of all ranks, equally many of each; all ranks get the
/// same.
std::vector<double> attention_errors(Teacher& teacher, VisionTransformerImpl& student,
                                     const std::vector<std::int64_t>& layers,
                                     const HeldOutImages& images, std::int64_t most_images,
                                     c10::Device device, Autocast autocast, ProcessGroup& group);

}  // namespace hydrascope::model::training
