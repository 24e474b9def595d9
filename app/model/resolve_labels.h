// The names of a model's classes: those that the user names, the file's own, or ImageNet's.
#pragma once

#include "app/model/model_source.h"
#include "model/image/labels.h"

#include <filesystem>
#include <optional>
#include <string>

namespace hydrascope::app {

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

/// Throws Error(invalid_argument), with the model's `option`, for a model whose classes are others than the first's:
/// of another number, or of other ids, or of other names where the lists that come with the models have no ids. A
/// model without a list has classes of the same number.
void require_same_classes(const ModelSource& first, const ModelSource& other,
                          const std::string& option);
/// The same for a first model whose list is given, or that has none.
void require_same_classes(const ModelSource& first, const std::optional<image::Labels>& expected,
                          const ModelSource& other, const std::string& option);

}  // namespace hydrascope::app
