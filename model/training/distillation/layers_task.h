// Stages of a conversion that teach each converted layer by itself, on what the teacher's layer got:
// the layers share nothing, so none waits for another, and memory is that of one part of the loss.
#pragma once

#include "model/training/distillation/converted_layers.h"
#include "model/training/distillation/teacher.h"
#include "model/training/trainer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace hydrascope::model::training {

/// Parts of a loss in the order in which `next` gives them: a differentiable scalar, or an
/// undefined tensor at the end.
using NextPart = std::function<at::Tensor()>;

/// The sum of the parts as a scalar of one graph node whose gradients for `parameters` are ready:
/// each part is differentiated as soon as it is known, and its graph is dropped before the next
/// begins. Other leaves get none. Where gradients are off, the sum alone.
at::Tensor sum_differentiated_at_once(const NamedTensors& parameters, const NextPart& next);

class LayersTask : public TrainingTask {
 public:
  /// What is trained.
  [[nodiscard]] const NamedTensors& parameters() const noexcept { return parameters_; }

 protected:
  /// `parameters_of` a layer are what is trained. Teacher and student must outlive the task.
  LayersTask(Teacher& teacher, VisionTransformerImpl& student, std::vector<std::int64_t> layers,
             NamedTensors (*parameters_of)(const VisionTransformerImpl&, std::int64_t));

  [[nodiscard]] Teacher& teacher() const noexcept { return teacher_; }
  [[nodiscard]] VisionTransformerImpl& student() const noexcept { return student_; }
  /// What the teacher's attention in these layers makes of the images.
  [[nodiscard]] TeacherAttention look(const Batch& batch) const {
    return teacher_.look_at_attention(batch.images, layers_);
  }

 private:
  Teacher& teacher_;
  VisionTransformerImpl& student_;
  std::vector<std::int64_t> layers_;
  NamedTensors parameters_;
};

}  // namespace hydrascope::model::training
