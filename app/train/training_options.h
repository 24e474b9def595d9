// Options of the commands that train (`train`, `convert`), spelled as timm's train.py has them, and
// what they mean.
#pragma once

#include "app/model/model_source.h"
#include "app/options/options.h"
#include "model/image/transform_plan.h"
#include "model/training/autocast.h"
#include "model/training/data/batch_loader.h"
#include "model/training/data/training_set.h"
#include "model/training/log/metric_log.h"
#include "model/training/mixup.h"
#include "model/training/optimizer.h"
#include "model/training/trainer.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::app {

/// The transform of pictures in batches, which have one size. Throws Error(invalid_argument) for
/// `--native` and for a size that the patch does not divide.
image::TransformConfig training_transform(const ResolvedTransform& transform);
/// "224x224", height first, as in --img-size.
std::string size_text(const image::Size& size);

model::training::OptimizerOptions optimizer_of(const ParsedOptions& options);
/// Crops of `transform`'s size, normalised as it says.
model::training::AugmentOptions augmentation_of(const ParsedOptions& options,
                                                const image::TransformConfig& transform);
model::training::MixupOptions mixing_of(const ParsedOptions& options);
/// The pictures that a folder with all its folders, a quoted glob or a list names and `known` lacks,
/// which then has them: a picture of two sources is one of the first. Throws
/// Error(invalid_argument) where there are none.
std::vector<model::training::TrainingPicture> pictures_of(const std::string& word,
                                                          std::int32_t source,
                                                          std::set<std::filesystem::path>& known);
/// `--sizes` and `--scenes`. Throws Error(invalid_argument) for sizes that the patch does not divide
/// and for scenes without sizes.
model::training::ResolutionOptions resolutions_of(const ParsedOptions& options,
                                                  const image::TransformConfig& transform);
/// Augmentation, repeats, workers, cache and limits; batches and their order are the caller's.
model::training::LoaderOptions loader_of(const ParsedOptions& options, const RunRequest& run,
                                         const image::TransformConfig& transform);
/// Which weights, wherever they lie: "NAME, sha256 HEX".
std::string name_and_sha256(const std::filesystem::path& file);

/// What decides the result, as a JSON object: the options without those of one start of the
/// program, with the number format that `--amp-dtype` came to, the number of processes, and the
/// pictures of `--scenes` by name.
std::string recipe_of(const ParsedOptions& options, model::training::Autocast autocast,
                      int processes);

/// A step's numbers for the log: its losses, "lr" and "gradient_norm" after `prefix`,
/// "images_per_second" and "wait_share" (of the time, for the loader).
model::training::Scalars scalars_of(const model::training::StepRecord& record,
                                    const std::string& prefix = "");
/// The same in short, for the line of progress.
std::string progress_text(const model::training::StepRecord& record);

/// `--amp-dtype`; "auto" is bfloat16 where the device computes it in hardware.
model::training::Autocast autocast_of(const ParsedOptions& options, c10::Device device);

}  // namespace hydrascope::app
