// The common request of `train` and `convert`, spelled as timm's train.py has it, and what follows
// of it.
#pragma once

#include "app/model/resolved_transform.h"
#include "app/options/requests.h"
#include "app/pictures/inputs.h"
#include "app/specs/training.h"
#include "model/image/transform_plan.h"
#include "model/training/autocast.h"
#include "model/training/data/batch_loader.h"
#include "model/training/data/training_set.h"
#include "model/training/log/metric_log.h"
#include "model/training/trainer.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::app {

struct TrainingRequest : PicturesRequest, TrainingOptions {
  std::int64_t batch_size = 1;  ///< of one process
  // The options of the library's parts: all but what the transform and the processes decide.
  model::training::LoaderOptions loader = {};
  model::training::TrainerOptions trainer = {};
  std::string recipe = {};  ///< the options and settings that a recipe holds, as a JSON object
};
/// `command` is "train" or "convert". Throws Error(invalid_argument) for options that do not go
/// together.
TrainingRequest training_request(const ParsedOptions& options, std::string_view command);

/// The transform of pictures in batches, which have one size. Throws Error(invalid_argument) for
/// `--native` and for a size that the patch does not divide.
image::TransformConfig training_transform(const ResolvedTransform& transform);
/// The pictures that the user named to learn from, and the named inputs that cannot be taken.
struct FoundPictures {
  std::vector<model::training::TrainingPicture> pictures;
  std::vector<Input> failed;
  PassedFiles passed;
};
/// Adds the pictures that a folder with all its folders, a quoted glob or a list names and `known`
/// lacks, which then has them: a picture of two sources is one of the first. Throws
/// Error(invalid_argument) where there are none, and for a word that names nothing.
void add_pictures(const std::string& word, std::int32_t source,
                  std::set<std::filesystem::path>& known, FoundPictures& found);
/// Throws Error(invalid_argument) for sizes that the patch does not divide, and for backgrounds
/// where no size is large enough for a scene.
model::training::ResolutionOptions resolutions_of(const TrainingRequest& request,
                                                  const image::TransformConfig& transform);
/// The pictures that `--scenes` names; nothing without it.
FoundPictures backgrounds_of(const TrainingRequest& request);
/// The request's loader: crops of `transform`'s size, normalised as it says, by the workers that
/// `run` gives this process; batches and their order are the caller's.
model::training::LoaderOptions loader_of(const TrainingRequest& request, const RunRequest& run,
                                         const image::TransformConfig& transform);
/// Which weights, wherever they lie: "NAME, sha256 HEX".
std::string name_and_sha256(const std::filesystem::path& file);

/// The request's recipe with the number format that `--set amp-dtype` came to, the number of processes,
/// and the pictures of `--scenes` by name.
std::string recipe_of(const TrainingRequest& request, std::string_view command,
                      model::training::Autocast autocast, int processes);

/// A step's numbers for the log: its losses, "lr" and "gradient_norm" after `prefix`,
/// "images_per_second" and "wait_share" (of the time, for the loader).
model::training::Scalars scalars_of(const model::training::StepRecord& record,
                                    const std::string& prefix = "");
/// The same in short, for the line of progress.
std::string progress_text(const model::training::StepRecord& record);

/// The type that is asked for, else bfloat16 if the device computes it in hardware.
model::training::Autocast autocast_of(const TrainingRequest& request, c10::Device device);

}  // namespace hydrascope::app
