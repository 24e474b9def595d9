// The parts of a conversion's stages: the stages that a student needs, and the task, pictures,
// parameters and settings of each.
#pragma once

#include "model/training/distillation/conversion_options.h"
#include "model/training/distillation/converted_layers.h"
#include "model/training/distillation/teacher.h"
#include "model/training/low_rank.h"
#include "model/training/parallel/process_group.h"
#include "model/training/trainer.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace hydrascope::model::training {

class ConversionStages {
 public:
  /// Settles the options that depend on the models. Throws as `converted_layers` does, and
  /// Error(invalid_argument) for a `train_from` that leaves a converted layer out. All arguments
  /// must outlive this.
  ConversionStages(Teacher& teacher, VisionTransformerImpl& student, const ProcessGroup& group,
                   ConversionOptions options);

  [[nodiscard]] const ConversionOptions& options() const noexcept { return options_; }
  [[nodiscard]] const ConvertedLayers& layers() const noexcept { return layers_; }
  /// The layers that no earlier conversion has begun.
  [[nodiscard]] const ConvertedLayers& fresh() const noexcept { return fresh_; }

  /// The stages with steps and something to train, in their order.
  [[nodiscard]] const std::vector<Stage>& all() const noexcept { return stages_; }
  /// Gives the stage other steps, its warm-up and its looks in proportion.
  void shorten(Stage stage, std::int64_t steps);
  /// Pictures of a step, by all processes.
  [[nodiscard]] std::int64_t pictures_of_a_step(Stage stage) const;
  /// Steps of the stages before the one at position `index` of `all`.
  [[nodiscard]] std::int64_t steps_before(std::size_t index) const;

  [[nodiscard]] LoaderOptions loader(Stage stage) const;
  [[nodiscard]] TrainerOptions trainer(Stage stage) const;
  std::unique_ptr<TrainingTask> make_task(Stage stage);
  std::vector<ParameterGroup> parameters(Stage stage);
  /// The updates in the place of `groups`' weights in the stages that train whole blocks; null where
  /// weights learn themselves. A converted layer's attention, which has to become another, does so in
  /// its own stages.
  std::unique_ptr<LowRankUpdates> updates(Stage stage, std::vector<ParameterGroup>& groups);

 private:
  [[nodiscard]] bool has_work(Stage stage) const;
  /// The groups; layers other than Hydra's get groups of their own, at half the rate.
  [[nodiscard]] std::vector<ParameterGroup> with_rates_of_outputs(
      std::vector<ParameterGroup> groups) const;

  Teacher& teacher_;
  VisionTransformerImpl& student_;
  const ProcessGroup& group_;
  ConversionOptions options_;
  ConvertedLayers layers_;
  ConvertedLayers fresh_;
  std::vector<Stage> stages_;
};

}  // namespace hydrascope::model::training
