// Options that `train` and `convert` share, spelled as timm's train.py has them.
#pragma once

#include "app/options/options.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::app {

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
/// resume, checkpoint-hist, max-minutes, cache-mb, amp-dtype, set.
std::vector<Option> training_run_options(std::string_view command);

/// A setting of `--set STAGE.KEY=VALUE`.
struct RunSetting {
  Option option;              ///< named "sizes.lr"; its kind, default and range are the value's
  std::string recorded = {};  ///< name in recipes and identities of runs, "lr-sizes"
};
/// Those of a command, "train" or "convert".
std::vector<RunSetting> run_settings(std::string_view command);
/// The role of an option or a setting by its name in a recipe; `task` for names of neither.
Role role_of_setting(std::string_view command, std::string_view recorded);
/// The words of `--set` by setting, the last one of each. Throws Error(invalid_argument) for words
/// that set nothing.
std::map<std::string, std::string> words_of_settings(std::string_view command,
                                                     const std::vector<std::string>& words);

/// Those of `runtime_options` that training has: batch-size, device, threads, workers, seed,
/// deterministic; and processes, with that default.
std::vector<Option> training_runtime_options(const std::string& batch_size,
                                             const std::string& processes);

/// The same table with other defaults: {{"lr", "1e-4"}}. Error(internal) for a name it lacks.
std::vector<Option> with_defaults(std::vector<Option> options,
                                  const std::vector<std::pair<std::string, std::string>>& values);

/// max-pixels, on-error: of the pictures that are learned from.
std::vector<Option> training_input_options();

/// A default of `convert` that depends on the model. Layers that learn feature maps start near the
/// teacher, which large steps would leave, as measured (docs/training.md). Not the option's own
/// default: `--dump-config` knows no model, and what it says would count as the user's choice.
struct RecipeDefault {
  std::string_view option;
  std::string_view value;
  std::string_view with_learned_maps;
  bool is_shared = false;  ///< by the processes, each of which takes its part

  [[nodiscard]] double of(bool learns_maps, int processes) const;
};
/// Error(internal) where that option has none.
const RecipeDefault& recipe_default(std::string_view option);

}  // namespace hydrascope::app
