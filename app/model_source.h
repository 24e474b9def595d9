// From the options to a model that can classify: which file, which configuration, which transform,
// which labels, and where each value came from. Shared by every command that runs a model.
#pragma once

#include "app/options.h"
#include "app/pipeline.h"
#include "model/checkpoint/checkpoint.h"
#include "model/config/config.h"
#include "model/explain/explainer.h"
#include "model/image/labels.h"
#include "model/inference/classifier.h"
#include "model/training/parallel/launch_environment.h"
#include "model/transform.h"

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::app {

/// What `-m`, `--checkpoint` and `--attn` say, before any tensor is loaded.
struct ModelSource {
  std::string name;                ///< for records: bundled name, or the file as given
  checkpoint::Checkpoint weights;  ///< empty with `random_weights`
  bool random_weights = false;     ///< an architecture by its name, for measurements
  checkpoint::HeadOptions head;    ///< `--num-classes`, `--reset-head`
  model::VitConfig config;         ///< with `--attn` applied
  /// What the weights were trained as, all options of its attention filled in.
  model::VitConfig trained;
  std::vector<std::string> notes;  ///< what the user must know ("converted layers need training")
};
ModelSource open_model(const ParsedOptions& options);
/// The same with `word` in the place of `-m`.
ModelSource open_model(const ParsedOptions& options, const std::string& word);
/// The same of a file or folder; `architecture` is the name of what it holds, or "" to deduce it.
ModelSource open_weights(const ParsedOptions& options, const std::string& name,
                         const std::string& file, const std::string& architecture);

/// An architecture with random weights, `--attn` applied.
ModelSource random_model(const ParsedOptions& options, const std::string& architecture);
/// `--attn`, `--attn-opt` and `--pos-interp` on what `config` says.
void apply_model_options(const ParsedOptions& options, model::VitConfig& config);

/// What a user should know of how weights were loaded, a sentence each.
std::vector<std::string> describe(const checkpoint::LoadReport& report);

/// "384" or "384x640" (height x width), as --img-size takes it. Throws Error(invalid_argument).
image::Size parse_size(const std::string& text, const std::string& option = "--img-size");

/// The evaluation transform and the origin of each of its values: flags > --config > the metadata
/// of our own files > the configuration beside the weights > the architecture's defaults.
struct ResolvedTransform {
  image::TransformConfig config;
  /// Field -> "--crop-pct", "metadata of x.safetensors", "default".
  std::map<std::string, std::string> origins;
  /// `transform: resize 256 (bicubic, antialias) -> ... [from ...]`
  [[nodiscard]] std::string describe() const;
};
ResolvedTransform resolve_transform(const ParsedOptions& options, const ModelSource& source);
/// The same of a command that has `--views`.
ResolvedTransform resolve_transform_of_views(const ParsedOptions& options,
                                             const ModelSource& source);

/// `--labels`, else what the metadata or the configuration beside the weights name, else
/// ImageNet-1k for 1000 classes, else the class indices. Throws Error(invalid_argument) when the
/// count differs from the model's classes.
enum class LabelOrigin { numbers, bundled, names };
struct ResolvedLabels {
  image::Labels labels;
  LabelOrigin origin = LabelOrigin::numbers;
  std::string bundled;  ///< "imagenet1k" of assets/labels, with `LabelOrigin::bundled`
};
/// The file that `--labels` names, nothing where it is not given. Throws Error(invalid_argument)
/// where there is none.
std::optional<std::filesystem::path> labels_file(const ParsedOptions& options);
ResolvedLabels resolve_named_labels(const ParsedOptions& options, const ModelSource& source);
/// The labels alone.
image::Labels resolve_labels(const ParsedOptions& options, const ModelSource& source);

/// Device, precision, kernels, threads and seeds from the options; then the model on its device,
/// which traces the tokens that enter `trace_layers`. Of several processes on a machine each takes
/// its share of it.
model::Classifier make_classifier(const ParsedOptions& options, const ModelSource& source,
                                  std::vector<std::int64_t> trace_layers = {},
                                  const model::training::LaunchEnvironment& launch = {});

/// What explains that classifier's predictions: the layers that `requests` need, a second time, as
/// modules in float32 on its device. What the checkpoint does not hold has the values that it has
/// there.
model::explain::Explainer make_explainer(const ParsedOptions& options, const ModelSource& source,
                                         std::span<const model::explain::Request> requests,
                                         c10::Device device);

/// EXIF orientation: applied for people (`classify`, `visualize`), unless told.
bool apply_exif(const ParsedOptions& options);
/// The same where `auto` leaves pictures as they are stored: to learn and to score, as the tools do
/// that published scores come from.
bool apply_exif_if_asked(const ParsedOptions& options);

/// What `classify` and `evaluate` give to the pipeline: transform, limits, workers, batch size.
PipelineOptions pipeline_options(const ParsedOptions& options, const ResolvedTransform& transform,
                                 bool apply_exif,
                                 const model::training::LaunchEnvironment& launch = {});

/// For `PipelineOptions::remark_on_size`: a note, once, on a size that is far above the one that
/// the model was trained at, unless its file says that it learned others.
std::function<std::string(const image::Size&)> note_on_large_sizes(const ModelSource& source);

/// `--device`. Where that names no GPU by its number and several processes share the GPUs of a
/// machine, each process takes the GPU of its LOCAL_RANK.
c10::Device choose_device(const ParsedOptions& options,
                          const model::training::LaunchEnvironment& launch = {});
/// How many processors this process may run on.
int available_processors();
/// `--threads`, or the available processors divided among the processes of this machine.
int model_threads(const ParsedOptions& options,
                  const model::training::LaunchEnvironment& launch = {});
/// `--workers`, with the same default.
int loader_workers(const ParsedOptions& options,
                   const model::training::LaunchEnvironment& launch = {});

}  // namespace hydrascope::app
