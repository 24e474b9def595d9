// The requests of `convert`.
#pragma once

#include "app/options/options.h"
#include "app/train/training_options.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/config/config.h"
#include "model/image/transform_plan.h"
#include "model/training/data/training_set.h"
#include "model/training/distillation/conversion_options.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

/// The request for a conversion that trains; numbers that it lacks depend on the model.
struct ConvertRequest : TrainingRequest, ConvertOptions {
  bool names_attention = false;  ///< `--attn` or `--set attn-opt`
  std::optional<std::int64_t> asked_batch_size = {};
  checkpoint::Dtype dtype = checkpoint::Dtype::F32;
  /// Without what the model, the transform, the pictures and the processes decide.
  model::training::ConversionOptions conversion = {};

  /// Gives the numbers that are not asked for their values, in the recipe, too.
  void choose_numbers(bool learns_maps, int world_size);
};
ConvertRequest convert_request(const ParsedOptions& options);

/// Gives a trained model another attention, with which it learns to give its old answers. Returns the
/// exit code.
int distill(const ConvertRequest& request);

/// How many processes the program starts where `--processes` does not say: one per core does more
/// than threads of one (docs/training.md), as far as memory goes.
int default_processes(const ConvertRequest& request, const model::VitConfig& config);

/// The stages of a request with chosen numbers; `pictures` are those that are trained on, by all
/// processes.
model::training::ConversionOptions conversion_options(const ConvertRequest& request,
                                                      const RunRequest& run,
                                                      const image::TransformConfig& transform,
                                                      c10::Device device, std::int64_t pictures);

/// The answers that a model without (or with) classes learns. Throws Error(invalid_argument) for
/// options that have no sense with them.
model::training::Target target_of(const ConvertRequest& request, bool has_classes);

/// The settings that decide the result (`recipe_of`), for the new file and for runs that are
/// resumed, as a JSON object; models of `--start` by name and SHA-256.
std::string conversion_recipe(const ConvertRequest& request, model::training::Target target,
                              model::training::Autocast autocast, int processes);

// The pictures that a conversion learns from, and those that judge it: the ones that the user named.

struct ConversionPictures {
  std::vector<model::training::TrainingPicture> training;
  std::vector<model::training::TrainingPicture> held_out;
  std::vector<std::string> sources;  ///< words of the command line, "photos/ (4000 + 120)"
  std::vector<Input> failed;         ///< what of them cannot be taken
  PassedFiles passed;
};

/// Each word is a source: a folder with all its folders, a quoted glob, a list, a file. Equally
/// many pictures of each are held out. Throws Error(invalid_argument) for a word that names
/// nothing, Error(empty) where nothing is left to learn from.
ConversionPictures conversion_pictures(const std::vector<std::string>& words, double held_out,
                                       std::uint64_t seed);

}  // namespace hydrascope::app
