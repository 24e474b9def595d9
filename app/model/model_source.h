// From the options to a model that can classify: which file, which configuration, which transform,
// which labels, and where each value came from. Shared by every command that runs a model.
#pragma once

#include "app/options/requests.h"
#include "app/pipeline/pipeline.h"
#include "app/run/console.h"
#include "model/checkpoint/checkpoint.h"
#include "model/config/config.h"
#include "model/explain/explainer.h"
#include "model/image/labels.h"
#include "model/inference/classifier.h"
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
ModelSource open_model(const ModelRequest& request);
/// The same of a file or folder; `architecture` is the name of what it holds, or "" to deduce it.
ModelSource open_weights(const ModelRequest& request, const std::string& name,
                         const std::string& file, const std::string& architecture);

/// Whether `-m` names an architecture without weights, and no file and no model at hand.
bool names_architecture(const ModelRequest& request);
/// That architecture with random weights, `--attn` applied.
ModelSource random_model(const ModelRequest& request);

/// What a user should know of how weights were loaded, a sentence each.
std::vector<std::string> describe(const checkpoint::LoadReport& report);

/// The evaluation transform and the origin of each of its values: flags > --config > the metadata
/// of our own files > the configuration beside the weights > the architecture's defaults.
struct ResolvedTransform {
  image::TransformConfig config;
  /// Field -> "--crop-pct", "metadata of x.safetensors", "default".
  std::map<std::string, std::string> origins;
  /// A note on values that are assumed because nothing says them, with the options that do. `of` names another model.
  void say_assumed(const Console& console, const std::string& of = "") const;
  /// `transform: resize 256 (bicubic, antialias) -> ... [from ...]`
  [[nodiscard]] std::string describe() const;
};
ResolvedTransform resolve_transform(const TransformRequest& request, const ModelSource& source);

/// A model, and how it sees pictures.
struct OpenedModel {
  ModelSource source;
  ResolvedTransform transform;
  /// Says what the user must know of it, and with --verbose, or where it is asked for, the transform.
  void announce(const Console& console, bool shows_transform) const;
};
/// Nothing where no pictures are named and the transform is asked for (`--print-transform`), which
/// then is on standard output.
std::optional<OpenedModel> open_for_pictures(const PicturesRequest& request);

/// `--labels`, else what the metadata or the configuration beside the weights name, else
/// ImageNet-1k for 1000 classes, else the class indices. Throws Error(invalid_argument) when the
/// count differs from the model's classes.
enum class LabelOrigin { numbers, bundled, names };
struct ResolvedLabels {
  image::Labels labels;
  LabelOrigin origin = LabelOrigin::numbers;
  std::string bundled;  ///< "imagenet1k" of assets/labels, with `LabelOrigin::bundled`
};
/// The file that `--labels` names, nothing for "". Throws Error(invalid_argument) where there is
/// none.
std::optional<std::filesystem::path> labels_file(const std::string& word);
ResolvedLabels resolve_labels(const std::string& word, const ModelSource& source);

/// The model on its device, ready to run as `request` says; it traces the tokens that enter
/// `trace_layers`. Of several processes on a machine each takes its share of it. `transform` is for
/// the pictures that int8 is calibrated on. Notes on what was loaded go to `console`.
model::Classifier make_classifier(const RunRequest& request, const ModelSource& source,
                                  const image::TransformConfig& transform, const Console& console,
                                  std::vector<std::int64_t> trace_layers = {});

/// What explains that classifier's predictions: the layers that `requests` need, a second time, as
/// modules in float32 on its device. What the checkpoint does not hold has the values that it has
/// there.
model::explain::Explainer make_explainer(std::uint64_t seed, const ModelSource& source,
                                         std::span<const model::explain::Request> requests,
                                         c10::Device device);

/// What a pipeline is given: transform, limits, workers, batch size.
PipelineOptions pipeline_options(const RunRequest& request,
                                 const image::TransformConfig& transform);

/// For `PipelineOptions::remark_on_size`: what there is to say of a size that is far above the one
/// that the model was trained at, unless its file says that it learned others. Names the bundled
/// model that did, where that knows the same classes.
std::function<std::string(const image::Size&)> remark_on_large_sizes(const ModelSource& source);

/// `--device`. Where that names no GPU by its number and several processes share the GPUs of a
/// machine, each process takes the GPU of its LOCAL_RANK.
c10::Device choose_device(const RunRequest& request);
/// `--threads`, or the available processors divided among the processes of this machine.
int model_threads(const RunRequest& request);
/// `--workers`, with the same default.
int loader_workers(const RunRequest& request);

}  // namespace hydrascope::app
