// The options of `convert`.
#pragma once

#include "app/options/requests.h"
#include "model/config/config.h"
#include "model/image/transform_plan.h"
#include "model/training/distillation/conversion_options.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace hydrascope::app {

/// How many the program starts where `--processes` does not say: one per core does more than
/// threads of one (docs/training.md), as far as memory goes.
int default_processes(const ParsedOptions& options, const model::VitConfig& config);

/// What they say of the stages; `pictures` are those that are trained on, by all processes.
model::training::ConversionOptions conversion_options(const ParsedOptions& options,
                                                      const RunRequest& run,
                                                      const image::TransformConfig& transform,
                                                      c10::Device device, std::int64_t pictures);

/// The settings that decide the result (`recipe_of`), for the new file and for runs that are
/// resumed, as a JSON object; models of `--start` by name and SHA-256.
std::string conversion_recipe(const ParsedOptions& options, const std::string& architecture,
                              model::training::Autocast autocast, int processes);

}  // namespace hydrascope::app
