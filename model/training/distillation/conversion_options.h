// The choices of a conversion. Measured recipes are the defaults of the command
// (app/tasks/conversion_options.cpp).
#pragma once

#include "model/training/data/batch_loader.h"
#include "model/training/distillation/finetune_task.h"
#include "model/training/distillation/maps_task.h"
#include "model/training/optimizer.h"
#include "model/training/parameter_groups.h"
#include "model/training/trainer.h"

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
  std::int64_t evaluations = 1;  ///< looks at the held-out images, evenly spread, one at the end
};

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
  bool trains_head = false;  ///< the classifier too, in the last stage
  double average_decay = 0;  ///< decay of the last stage's moving average of the weights; 0: none
  OptimizerOptions optimizer{.betas = {0.9, 0.99}};
  /// Learning rates of maps, feature scales and layers, and weight decay, in the last stages.
  ParameterGroupOptions groups{.weight_decay = 0.02, .mechanism_rate_scale = 3};

  /// A stage ends after so many evaluations in a row without a better one; 0: never.
  std::int64_t patience = 0;
  double max_seconds = 0;  ///< limit of this process's seconds; 0: no limit
  /// A JSON object of the facts that a resumed run must share with the run before.
  std::string identity = "{}";

  /// How pictures are loaded; batch size, seed, rank and number of processes are filled in.
  LoaderOptions loader;
  /// Options of every stage; each stage sets its own schedule and seed. The seed also serves
  /// pictures and mixing.
  TrainerOptions trainer{.clip_norm = 1};
  int recent_states = 1;
  std::int64_t steps_between_states = 0;  ///< besides states at looks; 0: none

  [[nodiscard]] const StageOptions& of(Stage stage) const {
    switch (stage) {
      case Stage::maps: return maps;
      case Stage::outputs: return outputs;
      case Stage::finetune: return finetune;
      case Stage::sizes: return sizes;
      case Stage::exits: break;
    }
    return exits;
  }
};

}  // namespace hydrascope::model::training
