// How close each converted layer's attention is to the teacher's.
#pragma once

#include "model/training/autocast.h"
#include "model/training/data/batch_loader.h"
#include "model/training/distillation/teacher.h"
#include "model/training/parallel/process_group.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

namespace hydrascope::model::training {

/// For each of `layers` (ascending) the mean over the images of |y - t|^2 / |t|^2, where y and t
/// are what student and teacher make of attention's output (after `proj`) from the teacher's
/// tokens; in the last block at the tokens that are read. The first `most_images` of all ranks',
/// equally many of each; all ranks get the same.
std::vector<double> attention_errors(Teacher& teacher, VisionTransformerImpl& student,
                                     const std::vector<std::int64_t>& layers,
                                     const HeldOutImages& images, std::int64_t most_images,
                                     c10::Device device, Autocast autocast, ProcessGroup& group);

}  // namespace hydrascope::model::training
