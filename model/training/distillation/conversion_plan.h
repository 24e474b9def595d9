// The stages of a conversion: their steps, looks and learning rates, and their parts of a limited time. Free of
// LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

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

/// The fixed part of the first of these stages in the time that is left for all of them, above 0 and at most 1.
double time_share(std::span<const Stage> stages);

/// The steps of `whole`, at least 10 of its own and at most all, that take `seconds` with their looks.
std::int64_t steps_within(double seconds, double seconds_of_a_step, double seconds_of_a_look,
                          const StageOptions& whole);

/// The stage with `steps` steps, its warm-up and its looks in proportion. The stage that `ends_run` has a look.
StageOptions shortened(const StageOptions& whole, std::int64_t steps, bool ends_run);

}  // namespace hydrascope::model::training
