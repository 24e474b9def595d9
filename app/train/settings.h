// The request of `train`, and its consequences for the run: its length and schedule.
#pragma once

#include "app/train/subject.h"
#include "app/train/training_options.h"
#include "model/training/classification_task.h"
#include "model/training/schedule.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

struct TrainRequest : TrainingRequest, TrainOptions {
  DataRequest data = {};
  model::training::ScheduleOptions schedule = {};  ///< without what the run's length decides
  bool weighs_ponder = false;                      ///< by `--set loss.ponder`
};
/// Throws Error(invalid_argument) for options that do not go together.
TrainRequest train_request(const ParsedOptions& options);

/// Steps (updates) and pictures of a run, from epochs.
struct RunLength {
  std::int64_t batch_size = 1;  ///< of one process
  std::int64_t accumulation = 1;
  std::int64_t steps_per_epoch = 1;
  std::int64_t epochs = 1;
  std::int64_t pictures_of_a_step = 1;  ///< of all processes
  [[nodiscard]] std::int64_t steps() const { return steps_per_epoch * epochs; }
};

RunLength length_of(const TrainRequest& request, std::size_t pictures, int world_size);
/// Throws Error(invalid_argument) for a warm-up that leaves no epoch.
model::training::ScheduleOptions schedule_of(const TrainRequest& request, const RunLength& length);

}  // namespace hydrascope::app
