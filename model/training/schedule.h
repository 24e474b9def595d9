// Learning rate over the steps of a run, as timm's schedulers that are updated every step. Free of
// LibTorch.
#pragma once

#include <cstdint>
#include <string>

namespace hydrascope::model::training {

struct ScheduleOptions {
  /// cosine, which is timm's; linear, its poly with a power of 1; or constant
  std::string kind = "cosine";
  double learning_rate = 1e-3;
  double min_learning_rate = 0;
  std::int64_t steps = 1;
  std::int64_t warmup_steps = 0;  ///< from `warmup_learning_rate`, linearly
  double warmup_learning_rate = 0;
};

/// Throws Error(invalid_argument) for settings that make no schedule. A warm-up may be longer than
/// the run, which then consists of it.
void validate(const ScheduleOptions& options);
/// The rate at `step` (from 0); beyond the last step the last step's. As with timm (`warmup_prefix`
/// off) the warm-up hides the beginning of the decay, which it does not delay:
///   cosine     min + (rate - min) (1 + cos(pi step / steps)) / 2
///   linear     min + (rate - min) (1 - step / steps)
double learning_rate(const ScheduleOptions& options, std::int64_t step);

}  // namespace hydrascope::model::training
