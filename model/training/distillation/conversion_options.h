// The choices of a conversion. Measured recipes are the defaults of the command
// (app/tasks/conversion_options.cpp).
#pragma once

#include "model/training/data/batch_loader.h"
#include "model/training/distillation/conversion_plan.h"
#include "model/training/distillation/finetune_task.h"
#include "model/training/distillation/maps_task.h"
#include "model/training/optimizer.h"
#include "model/training/parameter_groups.h"
#include "model/training/trainer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hydrascope::model::training {

struct ConversionOptions {
  StageOptions maps{
      .steps = 1600, .learning_rate = 1e-2, .batch_size = 8, .warmup_steps = 20, .evaluations = 2};
  StageOptions outputs{.steps = 100, .learning_rate = 1e-3, .warmup_steps = 10, .evaluations = 2};
  StageOptions finetune{.steps = 350, .learning_rate = 1e-4, .warmup_steps = 18, .evaluations = 8};
  StageOptions sizes{.learning_rate = 1e-4, .evaluations = 4};
  /// The exits alone; no other stage has work then, because exits belong to their trunk.
  StageOptions exits{.learning_rate = 4e-4, .evaluations = 4};

  MapsOptions of_maps;
  /// Converted layers whose weights come from an earlier conversion: only the last stage trains
  /// them.
  std::vector<std::int64_t> begun;
  std::int64_t hydra_start_batches = 4;

  FinetuneOptions of_finetune{.blocks_weight = 4};
  ResolutionOptions resolutions;  ///< the last stage's, in which all parameters learn
  /// First block that the finetune stage trains, at most the first converted block; -1: that block.
  /// The layers before the blocks are never trained.
  std::int64_t train_from = -1;
  double average_decay = 0;  ///< decay of the last stage's moving average of the weights; 0: none
  OptimizerOptions optimizer{.betas = {0.9, 0.99}};
  LowRankOptions low_rank;  ///< of the last stages
  /// Learning rates of maps, feature scales and layers, and weight decay, in the last stages.
  ParameterGroupOptions groups{.weight_decay = 0.02, .mechanism_rate_scale = 3};

  /// Limit of this process's seconds, `seconds_before` included; 0: no limit. A stage that begins takes as many of
  /// its steps as its share of the time holds.
  double max_seconds = 0;
  double seconds_before = 0;        ///< of the process, when the conversion was made
  double seconds_after = 0;         ///< of what the process does afterwards, beside its looks
  std::int64_t pictures_after = 0;  ///< that the result is measured on afterwards, by all processes
  /// A JSON object of the facts that a resumed run must share with the run before.
  std::string identity = "{}";

  /// How pictures are loaded; batch size, seed, rank and number of processes are filled in.
  LoaderOptions loader;
  /// Options of every stage; each stage sets its own schedule and seed. The seed also serves
  /// pictures and mixing.
  TrainerOptions trainer{.clip_norm = 1};
  int recent_states = 1;
  std::int64_t steps_between_states = 0;  ///< besides states at looks; 0: none

  [[nodiscard]] const StageOptions& of(Stage stage) const { return this->*member_of(stage); }
  [[nodiscard]] StageOptions& of(Stage stage) { return this->*member_of(stage); }

 private:
  static StageOptions ConversionOptions::*member_of(Stage stage) {
    switch (stage) {
      case Stage::maps: return &ConversionOptions::maps;
      case Stage::outputs: return &ConversionOptions::outputs;
      case Stage::finetune: return &ConversionOptions::finetune;
      case Stage::sizes: return &ConversionOptions::sizes;
      case Stage::exits: break;
    }
    return &ConversionOptions::exits;
  }
};

}  // namespace hydrascope::model::training
