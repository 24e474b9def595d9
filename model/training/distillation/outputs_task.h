// Second stage of a conversion: each converted layer's attention, projections and all, gives on the
// teacher's input what the teacher's attention gave.
#pragma once

#include "model/training/distillation/converted_layers.h"
#include "model/training/distillation/teacher.h"
#include "model/training/trainer.h"

#include <cstdint>
#include <vector>

namespace hydrascope::model::training {

class OutputsTask final : public TrainingTask {
 public:
  /// `cls_weight`: of the class token's error beside that of all tokens. Teacher and student must
  /// outlive the task.
  OutputsTask(Teacher& teacher, VisionTransformerImpl& student, std::vector<std::int64_t> layers,
              double cls_weight);
  /// Sum over the layers of the relative error of attention's output (after `proj`); of the last
  /// block at the tokens that are read. The layers share nothing, so none waits for another; part
  /// "error" is the mean over the layers.
  StepLoss loss(const Batch& batch, std::int64_t step) override;
  /// What is trained.
  [[nodiscard]] const NamedTensors& parameters() const noexcept { return parameters_; }

 private:
  Teacher& teacher_;
  VisionTransformerImpl& student_;
  std::vector<std::int64_t> layers_;
  double class_weight_;
  NamedTensors parameters_;
};

/// The outputs (B, n, D) of teacher's and student's attention in one layer, after `proj`, on the
/// teacher's input; n as in `run_block`.
struct AttentionOutputs {
  at::Tensor teacher;
  at::Tensor student;
};
AttentionOutputs attention_outputs(Teacher& teacher, VisionTransformerImpl& student,
                                   const TeacherAttention::Layer& layer, const TokenGrid& grid);

}  // namespace hydrascope::model::training
