// The conversion of a model from one attention to another: four stages, each a training run of its
// own; the best state over all of them by the held-out images; resumable at any step.
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
#include <string>
#include <vector>

namespace hydrascope::model::training {

/// A stage that begins, or goes on at `step`.
struct StageStart {
  Stage stage;
  std::size_t number;  ///< from 1
  std::size_t stages;  ///< of the whole run
  std::int64_t step;
  std::int64_t steps;
};

/// Called on every rank; each may be empty.
struct ConversionEvents {
  std::function<void(const StageStart& start)> on_stage;
  /// Numbers of the last steps; `step` counts those of all stages.
  std::function<void(Stage stage, std::int64_t step, const StepRecord& record)> on_record;
  std::function<void(const Evaluation& evaluation, std::int64_t step, bool is_best)> on_evaluation;
  /// Asked after every step; false stops in good order. Rank 0's answer counts.
  std::function<bool()> keep_going;
};

/// Where a run goes on.
struct Resumption {
  std::int64_t step = 0;        ///< of all stages
  std::int64_t steps_done = 0;  ///< as the processes took them, however many they were
};

class Conversion {
 public:
  /// `student` holds the weights to start from, and is trained; both models are on the options'
  /// device. States go to `folder`, described by `about` (`save_checkpoint`). Throws what
  /// `converted_layers` throws, Error(empty) without held-out images, Error(invalid_argument) for a
  /// `train_from` that leaves a converted layer out. References must outlive the conversion.
  Conversion(Teacher& teacher, VisionTransformerImpl& student,
             std::vector<TrainingPicture> pictures, const HeldOutImages& held_out,
             ProcessGroup& group, std::filesystem::path folder, checkpoint::Metadata about,
             ConversionOptions options);
  ~Conversion();

  /// Goes on from a state, at another step than the state's where another number of processes goes
  /// on, which needs other steps for the same pictures: the history's steps of that stage are
  /// numbered like the new ones. Later states are deleted. Throws what
  /// `load_training_state` throws.
  Resumption resume(const std::filesystem::path& state);
  /// The newest state of the folder, or nothing.
  [[nodiscard]] std::optional<std::filesystem::path> newest_state() const;
  /// Deletes the folder's states (rank 0), which would be newer than those of a run that begins.
  void forget_states();

  /// Until all stages are done, the time is up or `keep_going` says no. Every rank's student
  /// then holds the best weights, read from the folder, which all must see. Throws what
  /// `Trainer::run` throws.
  const ConversionHistory& run(const ConversionEvents& events);

  /// Steps of all stages.
  [[nodiscard]] std::int64_t planned_steps() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::model::training
