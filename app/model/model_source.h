// From the options to a model: which file, which configuration. Shared by every command that has one.
#pragma once

#include "app/options/requests.h"
#include "app/pipeline/trained_size.h"
#include "model/checkpoint/checkpoint.h"
#include "model/config/config.h"
#include "model/image/labels.h"
#include "model/inference/feature_engine.h"

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

/// The model that `-m`, `--checkpoint` and `--attn` name, before any tensor is loaded.
struct ModelSource {
  std::string name;                ///< for records: bundled name, or the file as given
  checkpoint::Checkpoint weights;  ///< empty with `random_weights`
  bool random_weights = false;     ///< an architecture by its name, for measurements
  checkpoint::HeadOptions head;    ///< `--num-classes`, `--reset-head`
  model::VitConfig config;         ///< with `--attn` applied
  /// The configuration that the weights were trained as, with all options of its attention.
  model::VitConfig trained;
  std::vector<std::string> notes;  ///< what the user must know ("converted layers need training")
  /// An answer beside the classifier or in its place; `config` and `head` have the answer's classes.
  std::optional<model::FeatureAnswer> answer = {};
  std::vector<image::Label> classes = {};                         ///< these classes, in order
  double least_logit = -std::numeric_limits<double>::infinity();  ///< classes below are no answers
  at::Tensor class_vectors =
      {};  ///< (classes, D) float32, which maps explain; undefined without any
  /// The same where they depend on the picture: of its feature (D) float32; empty without any.
  std::function<at::Tensor(const at::Tensor&)> class_vectors_of = {};
  /// For a remark on sizes far above it; nothing where the file says that the model learned others.
  std::optional<TrainedSize> trained_size;
};
ModelSource open_model(const ModelRequest& request);
/// Other weights and other classifiers have no use for the exits before.
inline void leave_out_exits(model::VitConfig& config) {
  config.exits.clear();
  config.coarse_exits = false;
}
/// The same of a file or folder; `architecture` is the name of what it holds, or "" to deduce it.
ModelSource open_weights(const ModelRequest& request, const std::string& name,
                         const std::string& file, const std::string& architecture);

/// Throws Error(invalid_argument) for a model without a classifier.
void require_classes(const ModelSource& source);

/// Whether `-m` names an architecture without weights, and no file and no model at hand.
bool names_architecture(const ModelRequest& request);
/// That architecture with random weights, `--attn` applied.
ModelSource random_model(const ModelRequest& request);

}  // namespace hydrascope::app
