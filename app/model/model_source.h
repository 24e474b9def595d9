// From the options to a model: which file, which configuration. Shared by every command that has one.
#pragma once

#include "app/options/requests.h"
#include "app/pipeline/trained_size.h"
#include "model/checkpoint/checkpoint.h"
#include "model/config/config.h"
#include "model/inference/feature_engine.h"

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
  std::string class_lines = {};  ///< the names of these classes, the lines of a label file
  at::Tensor class_vectors =
      {};  ///< (classes, D) float32, which maps explain; undefined without any
  /// For a remark on sizes far above it; nothing where the file says that the model learned others.
  std::optional<TrainedSize> trained_size;
};
ModelSource open_model(const ModelRequest& request);
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
