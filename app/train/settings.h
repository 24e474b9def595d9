// What the options of `train` say of the run: its length, and the settings of the library's parts.
#pragma once

#include "app/options/options.h"
#include "model/training/classification_task.h"
#include "model/training/parameter_groups.h"
#include "model/training/schedule.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::app {

/// Steps (updates) and pictures of a run, from epochs.
struct RunLength {
  std::int64_t batch_size = 1;  ///< of one process
  std::int64_t accumulation = 1;
  std::int64_t steps_per_epoch = 1;
  std::int64_t epochs = 1;
  std::int64_t pictures_of_a_step = 1;  ///< of all processes
  [[nodiscard]] std::int64_t steps() const { return steps_per_epoch * epochs; }
};

RunLength length_of(const ParsedOptions& options, std::size_t pictures, int world_size);
/// Throws Error(invalid_argument) for a warm-up that leaves no epoch.
model::training::ScheduleOptions schedule_of(const ParsedOptions& options, const RunLength& length);
model::training::ParameterGroupOptions groups_of(const ParsedOptions& options);
model::training::ClassificationOptions loss_of(const ParsedOptions& options);
/// Views of several sizes are made of crops and flips to the side alone: throws
/// Error(invalid_argument) where other augmentation is asked for, or mixing.
void refuse_beside_sizes(const ParsedOptions& options);

}  // namespace hydrascope::app
