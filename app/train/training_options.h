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
#include "model/training/parallel/process_group.h"
#include "model/training/trainer.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::app {

/// `--processes`, or `otherwise`; 1 in a process that was started as one of several. Throws
/// Error(invalid_argument) where a launcher says how many there are, too.
int local_processes(const ParsedOptions& options, int otherwise);

/// How this process of a training run computes and reads pictures.
RunRequest training_run_request(const ParsedOptions& options);
/// How LibTorch computes in this process: `--threads`, `--deterministic`.
void set_up_computation(const RunRequest& run);
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

/// Says on standard error which pictures cannot be read, each once, whatever the rank and however
/// quiet.
class UnreadablePictures {
 public:
  /// `ends_run`: the first one does, by an Error(failed) out of `report`.
  explicit UnreadablePictures(bool ends_run) : ends_run_(ends_run) {}
  /// For loaders; this object must outlive them.
  [[nodiscard]] model::training::FailureReport report();
  /// Of all processes, which must ask alike.
  [[nodiscard]] std::int64_t count(model::training::ProcessGroup& group, c10::Device device) const;

 private:
  mutable std::mutex mutex_;
  std::set<std::string> files_;
  bool ends_run_;
};

/// Where the environment describes several processes, joins them; a signal gives up waiting.
std::unique_ptr<model::training::ProcessGroup> join_training(double timeout, c10::Device device);
/// `--amp-dtype`; "auto" is bfloat16 where the device computes it in hardware.
model::training::Autocast autocast_of(const ParsedOptions& options, c10::Device device);

}  // namespace hydrascope::app
