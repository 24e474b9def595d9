// Options that `train` and `convert` share, spelled as timm's train.py has them, and what they fill.
// Free of LibTorch.
#pragma once

#include "app/options/requests.h"
#include "model/training/data/training_set.h"
#include "model/training/options.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::app {

/// The treatment of a run that the folder holds.
struct ResumeRequest {
  std::string word;    ///< `--resume`: "auto", a state's file, or ""
  bool force = false;  ///< it is replaced
};

/// The request of both commands, beside the requests of all commands and of the library's parts.
struct TrainingOptions {
  ResumeRequest resume = {};
  std::optional<Asked<int>> processes = {};
  std::optional<model::training::Autocast> autocast = {};  ///< without: by the device
  std::vector<image::Size> sizes = {};                     ///< `--sizes`
  std::string scenes = {};
  bool averages = false;  ///< `--set model-ema=on`
  double average_decay = 0;
  int recent_states = 1;
  double max_minutes = 0;              ///< 0: no limit
  std::int64_t cache_mebibytes = 512;  ///< of decoded pictures
  std::int64_t accumulation = 1;       ///< batches of one update
  double clip_norm = 0;                ///< 0: none
  model::training::AugmentOptions augment = {};
  model::training::OptimizerOptions optimizer = {};
  model::training::ParameterGroupOptions groups = {};
  model::training::MixupOptions mixup = {};
  model::training::LowRankOptions low_rank = {};
  // By `--set`:
  std::int64_t log_every = 20;
  std::int64_t steps_between_states = 0;

  [[nodiscard]] double max_seconds() const { return 60 * max_minutes; }
};

/// The request of `train` alone.
struct TrainOptions {
  double held_out = 0;       ///< share, or number from 1 on
  std::string teacher = {};  ///< a model's name, file or folder; "" is none
  model::training::ClassificationOptions loss = {};
  std::int64_t epochs = 1;
  std::optional<std::int64_t> warmup_epochs = {};
  std::optional<double> learning_rate = {};
  std::optional<double> min_learning_rate = {};
  std::string store = {};  ///< of vectors, from which a classifier alone is learned
};

/// The request of `convert` alone; numbers that it lacks depend on the model.
struct ConvertOptions {
  std::string architecture = {};  ///< of the checkpoint; "": as its names and shapes show
  bool format_only = false;
  double held_out = 480;
  bool balances_sources = false;
  double epochs = 5;
  std::int64_t steps_maps = 1600;
  std::optional<std::int64_t> steps_outputs = {};
  std::int64_t steps_sizes = 400;
  std::vector<std::int64_t> exits = {};  ///< `--exits`
  bool chooses_exits = false;            ///< `--exits auto`
  std::int64_t steps_exits = 1000;
  std::optional<double> learning_rate = {};
  std::optional<double> mechanism_rate_scale = {};
  double min_learning_rate = 0;
  double answers_weight = 1;
  double blocks_weight = 4;
  std::int64_t train_from = -1;
  std::vector<std::string> starts = {};  ///< files
  std::string evaluated_folder = {};
  std::string labels_csv = {};
  std::optional<double> required_top1 = {};
  // By `--set`:
  std::optional<std::int64_t> batch_size_maps = {};
  std::int64_t evaluations = 10;
  double sizes_learning_rate = 1e-4;
  std::optional<model::training::Target> target = {};  ///< without: by the model
  double exits_learning_rate = 4e-4;

  [[nodiscard]] bool learns_exits() const { return chooses_exits || !exits.empty(); }
};

/// opt, momentum, opt-betas, weight-decay, layer-decay, clip-grad, grad-accum-steps.
std::vector<Option> optimizer_options();
/// scale, hflip, aa, reprob.
std::vector<Option> augmentation_options();
/// sizes, scenes.
std::vector<Option> resolution_options();
/// mixup, cutmix.
std::vector<Option> mixing_options();
/// model-ema, model-ema-decay.
std::vector<Option> average_options();
/// resume, checkpoint-hist, max-minutes, cache-mb, amp-dtype.
std::vector<Option> training_run_options();

/// log-interval, recovery-interval, lora-alpha, lora-targets.
std::vector<Option> training_settings(std::string_view command);
/// The role of an option by its name in a recipe; `task` for others.
Role role_of_setting(std::string_view command, std::string_view recorded);
/// The name in recipes of the option that fills `field`. Error(internal) if there is none.
const std::string& recorded_name(std::string_view command, const Field& field);

/// Those of `runtime_options` that training has: batch-size, device, threads, workers, seed,
/// deterministic; and processes, with that default.
std::vector<Option> training_runtime_options(const std::string& batch_size,
                                             const std::string& processes);

/// The same table with other defaults: {{&TrainOptions::learning_rate, "1e-4"}}. Error(internal) for a field it lacks.
std::vector<Option> with_defaults(std::vector<Option> options,
                                  const std::vector<std::pair<Field, std::string>>& values);

/// max-pixels, on-error: of the pictures that are learned from.
std::vector<Option> training_input_options();

/// A default of `convert` that depends on the model. Layers that learn feature maps start near the
/// teacher, which large steps would leave, as measured (docs/training.md). Not the option's own
/// default: `--dump-config` knows no model, and what it says would count as the user's choice.
struct RecipeDefault {
  Field field;
  std::string_view value;
  std::string_view with_learned_maps;
  bool is_shared = false;  ///< by the processes, each of which takes its part

  [[nodiscard]] double of(bool learns_maps, int processes) const;
};
/// Error(internal) where the field's option has none.
const RecipeDefault& recipe_default(const Field& field);

}  // namespace hydrascope::app
