#include "model/training/distillation/conversion_plan.h"

#include <algorithm>

namespace hydrascope::model::training {
namespace {

constexpr std::int64_t kLeastSteps = 10;

/// Relative to the other stages of a run. The stages before `finetune` bring the most in their first steps
/// (docs/notes/conversion.md).
double weight_of(Stage stage) {
  switch (stage) {
    case Stage::maps: return 3;
    case Stage::outputs: return 1;
    case Stage::sizes: return 4;
    case Stage::finetune:
    case Stage::exits: break;
  }
  return 8;
}

}  // namespace

double time_share(std::span<const Stage> stages) {
  double all = 0;
  for (const Stage stage : stages) all += weight_of(stage);
  return weight_of(stages.front()) / all;
}

std::int64_t steps_within(double seconds, double seconds_of_a_step, double seconds_of_a_look,
                          const StageOptions& whole) {
  const auto all = static_cast<double>(whole.steps);
  const double cost =
      seconds_of_a_step + seconds_of_a_look * static_cast<double>(whole.evaluations) / all;
  const double steps = cost > 0 ? std::min(all, seconds / cost) : all;
  return std::max(static_cast<std::int64_t>(steps), std::min(kLeastSteps, whole.steps));
}

StageOptions shortened(const StageOptions& whole, std::int64_t steps, bool ends_run) {
  StageOptions part = whole;
  part.steps = steps;
  part.warmup_steps = std::min(whole.warmup_steps * steps / whole.steps, steps - 1);
  part.evaluations =
      std::max<std::int64_t>(ends_run ? 1 : 0, whole.evaluations * steps / whole.steps);
  return part;
}

}  // namespace hydrascope::model::training
