// The memory of a run in `train` besides weights and optimizer, in the state's fields.
#pragma once

#include "model/checkpoint/formats/safetensors.h"

#include <cstdint>
#include <string>

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

struct ProgressState {
  double seconds = 0;  ///< trained so far
  /// Done: other than the step's number once other processes went on, which count other steps.
  std::int64_t updates = 0;
  double best_top1 = -1;
  double best_loss = 0;  ///< decides between equal top-1
  std::int64_t best_epoch = -1;
  std::int64_t judged_epochs = 0;
  // These describe the epoch that is under way.
  double epoch_loss = 0;  ///< sum over its steps
  std::int64_t epoch_steps = 0;

  /// Whether an epoch of this score is a better one than the best.
  [[nodiscard]] bool is_surpassed_by(double top1, double loss) const;
};

void write_fields(const ProgressState& progress, const RunLength& length,
                  checkpoint::Metadata& fields);
/// Throws Error(decode_failed) naming `file`.
ProgressState read_fields(const checkpoint::Metadata& fields, const std::string& file);

/// The pictures per step of the run that wrote the fields. Throws Error(decode_failed).
std::int64_t pictures_of_a_step(const checkpoint::Metadata& fields, const std::string& file);

/// The step of a run of `length` at which the pictures have been seen that the state's run had seen
/// at `step`: another one where another number of processes, or another batch, goes on. Throws
/// Error(decode_failed).
std::int64_t equivalent_step(std::int64_t step, const checkpoint::Metadata& fields,
                             const RunLength& length, const std::string& file);

}  // namespace hydrascope::app
