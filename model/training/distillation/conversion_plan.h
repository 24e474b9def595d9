// The stages of a conversion: their steps, looks and learning rates, and how they are fitted to a
// time. Free of LibTorch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::model::training {

/// Stages run in this order.
enum class Stage { maps, outputs, finetune, sizes, exits };
inline constexpr std::string_view kStageNames[] = {"maps", "outputs", "finetune", "sizes", "exits"};
inline std::string_view name(Stage stage) { return kStageNames[static_cast<std::size_t>(stage)]; }

struct StageOptions {
  std::int64_t steps = 0;  ///< 0: the stage is left out
  double learning_rate = 0;
  double min_learning_rate = 0;  ///< at the end of the cosine
  std::int64_t batch_size = 32;  ///< each process's
  std::int64_t warmup_steps = 0;
  /// Looks at the held-out images, evenly spread, one at the end; 0: none, which the last stage of
  /// a run does not have.
  std::int64_t evaluations = 1;
};

/// A stage of a run.
struct PlannedStage {
  Stage stage = Stage::finetune;
  StageOptions options;
};

/// The measured costs of a run, in seconds.
struct ConversionCosts {
  /// By stage: of a step, for each picture of a process's batch.
  std::array<double, std::size(kStageNames)> picture = {};
  double look = 0;

  [[nodiscard]] double of_step(const PlannedStage& planned) const {
    return picture[static_cast<std::size_t>(planned.stage)] *
           static_cast<double>(planned.options.batch_size);
  }
};

/// The choices that nobody has made, which `fit` therefore may make.
struct FreeChoices {
  bool rate = true;   ///< of the last stage
  bool batch = true;  ///< pictures of a step
};

/// The time of these stages from their first step to their last look.
double seconds_of(const std::vector<PlannedStage>& stages, const ConversionCosts& costs);

/// Shortens the stages, the run's, until they take at most `seconds`; what fits stays as it is.
/// Steps of the last stages shrink in proportion, steps of `maps` and `outputs` by the square root of
/// that share, because those stages bring the most in their first steps. Warm-ups shrink with the
/// steps. Looks take at most a twentieth of a stage, and one ends the last. As far as they are free, a last
/// stage of less than 300 steps takes smaller batches, hence more steps, and its rate is lower
/// (docs/notes/conversion.md has the measurements). If less than 10 steps of the last stage would be left, it
/// stands alone: the others are left out. False, and nothing changes, where not one step of it fits with its look.
bool fit(std::vector<PlannedStage>& stages, const ConversionCosts& costs, double seconds,
         const FreeChoices& free = {});

/// One line of JSON: stages with their numbers, and back; throws Error(decode_failed).
std::string to_json(const std::vector<PlannedStage>& stages);
std::vector<PlannedStage> plan_from_json(std::string_view json, const std::string& subject);

}  // namespace hydrascope::model::training
