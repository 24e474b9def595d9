// Options that `train` and `convert` share, spelled as timm's train.py has them.
#pragma once

#include "app/options/options.h"

#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {

/// opt, momentum, opt-betas, opt-eps, weight-decay, layer-decay, clip-grad, grad-accum-steps.
std::vector<Option> optimizer_options();
/// scale, ratio, hflip, vflip, color-jitter, aa, reprob, remode, recount, train-interpolation,
/// aug-repeats.
std::vector<Option> augmentation_options();
/// sizes, scenes.
std::vector<Option> resolution_options();
/// mixup, cutmix, mixup-prob, mixup-switch-prob.
std::vector<Option> mixing_options();
/// model-ema, model-ema-decay, model-ema-warmup.
std::vector<Option> average_options();
/// resume, checkpoint-hist, recovery-interval, log-interval, max-minutes, cache-mb, amp-dtype.
std::vector<Option> training_run_options();

/// Those of `runtime_options` that training has: batch-size, device, threads, workers, seed,
/// deterministic; and processes, with that default.
std::vector<Option> training_runtime_options(const std::string& batch_size,
                                             const std::string& processes);

/// The same table with other defaults: {{"lr", "1e-4"}}. Error(internal) for a name it lacks.
std::vector<Option> with_defaults(std::vector<Option> options,
                                  const std::vector<std::pair<std::string, std::string>>& values);

/// max-pixels, on-error: of the pictures that are learned from.
std::vector<Option> training_input_options();

/// The options of `convert` with the defaults that depend on the model, whether any layer learns
/// feature maps, and on how many processes share a batch. All that reads the options of `convert` expects them.
ParsedOptions with_recipe_defaults(ParsedOptions options, bool learns_maps, int processes);

}  // namespace hydrascope::app
