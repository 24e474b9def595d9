// Second stage of a conversion: each converted layer's attention, projections and all, gives on the
// teacher's input what the teacher's attention gave.
#pragma once

#include "model/training/autocast.h"
#include "model/training/data/batch_loader.h"
#include "model/training/distillation/layers_task.h"
#include "model/training/parallel/process_group.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

namespace hydrascope::model::training {

class OutputsTask final : public LayersTask {
 public:
  /// `cls_weight`: of the class token's error beside that of all tokens. Teacher and student must
  /// outlive the task.
  OutputsTask(Teacher& teacher, VisionTransformerImpl& student, std::vector<std::int64_t> layers,
              double cls_weight);
  /// Sum over the layers of the relative error of attention's output (after `proj`); of the last
  /// block at the tokens that are read. Part "error" is the mean over the layers.
  StepLoss loss(const Batch& batch, std::int64_t step) override;

 private:
  double class_weight_;
};

/// The outputs (B, n, D) of teacher's and student's attention in one layer, after `proj`, on the
/// teacher's input; n as in `run_block`.
struct AttentionOutputs {
  at::Tensor teacher;
  at::Tensor student;
};
AttentionOutputs attention_outputs(Teacher& teacher, VisionTransformerImpl& student,
                                   const TeacherAttention::Layer& layer, const TokenGrid& grid);

/// How close each converted layer's attention is to the teacher's: for each of `layers` (ascending) the mean over the images of |y - t|^2 / |t|^2, where y and t
/// are what student and teacher make of attention's output (after `proj`) from the teacher's
/// tokens; in the last block at the tokens that are read. The first `most_images` of all ranks',
/// equally many of each; all ranks get the same.
std::vector<double> attention_errors(Teacher& teacher, VisionTransformerImpl& student,
                                     const std::vector<std::int64_t>& layers,
                                     const HeldOutImages& images, std::int64_t most_images,
                                     c10::Device device, Autocast autocast, ProcessGroup& group);

}  // namespace hydrascope::model::training
