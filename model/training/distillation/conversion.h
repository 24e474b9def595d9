// The conversion of a model from one attention to another: up to four stages, or the exits alone, each a training run of its
// own; the held-out images choose the best state of all; resumable at any step.
#pragma once

#include "model/checkpoint/formats/safetensors.h"
#include "model/training/distillation/agreement.h"
#include "model/training/distillation/conversion_history.h"
#include "model/training/distillation/conversion_options.h"
#include "model/training/distillation/converted_layers.h"
#include "model/training/distillation/teacher.h"
#include "model/training/parallel/process_group.h"
#include "model/training/trainer.h"
#include "model/training/training_state.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace hydrascope::model::training {

/// A stage's beginning, or its continuation at `step`.
struct StageStart {
  Stage stage;
  std::size_t number;  ///< from 1
  std::size_t stages;  ///< number of the run's stages
  std::int64_t step;
  std::int64_t steps;
};

/// Called on every rank; each may be empty.
struct ConversionEvents {
  std::function<void(const StageStart& start)> on_stage;
  /// The stage takes `steps` of its `whole` steps, by the limit of time.
  std::function<void(Stage stage, std::int64_t steps, std::int64_t whole)> on_steps;
  /// Numbers of the last steps; `step` counts all stages' steps.
  std::function<void(Stage stage, std::int64_t step, const StepRecord& record)> on_record;
  std::function<void(const Evaluation& evaluation, std::int64_t step, bool is_best)> on_evaluation;
  /// Asked after every step; false stops in good order. Rank 0's answer counts.
  std::function<bool()> keep_going;
};

/// The place where a run goes on.
struct Resumption {
  std::int64_t step = 0;        ///< counted over all stages
  std::int64_t steps_done = 0;  ///< steps taken, by however many processes
};

class Conversion {
 public:
  /// `student` holds the weights to start from, and is trained; both models are on the options'
  /// device. States go to `folder`, described by `about` (`save_checkpoint`). Throws as
  /// `converted_layers` does, Error(empty) without held-out images, Error(invalid_argument) for a
  /// `train_from` that leaves a converted layer out. References must outlive the conversion.
  Conversion(Teacher& teacher, VisionTransformerImpl& student,
             std::vector<TrainingPicture> pictures, const HeldOutImages& held_out,
             ProcessGroup& group, std::filesystem::path folder, checkpoint::Metadata about,
             ConversionOptions options);
  ~Conversion();

  /// Goes on from a state. Another number of processes needs other steps for the same pictures and
  /// goes on at another step than the state's; the history's steps of that stage are renumbered
  /// alike. Later states are deleted. Throws as `load_training_state` does.
  Resumption resume(const std::filesystem::path& state);
  /// The newest state of the folder, or nothing.
  [[nodiscard]] std::optional<std::filesystem::path> newest_state() const;
  /// Deletes the folder's states (rank 0), which would count as newer than a beginning run's.
  void forget_states();

  /// Runs until all stages are done, the time is up or `keep_going` says no. Every rank's student
  /// then holds the best weights, read from the folder, which all ranks must see. Throws as
  /// `Trainer::run` does.
  const ConversionHistory& run(const ConversionEvents& events);

  /// Steps of all stages, as far as a limit of time has not chosen fewer yet.
  [[nodiscard]] std::int64_t planned_steps() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::model::training
