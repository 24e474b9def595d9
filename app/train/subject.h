// What a run trains and on what: the model, its classes, its pictures.
#pragma once

#include "app/labelled_set.h"
#include "app/model_source.h"
#include "app/options.h"
#include "model/training/data/training_set.h"

#include <filesystem>
#include <string>
#include <vector>

namespace hydrascope::app {

struct TrainingSubject {
  ModelSource source;  ///< its configuration has the number of classes
  ResolvedTransform transform;
  ResolvedLabels labels;
  std::vector<model::training::TrainingPicture> training;
  std::vector<LabelledPicture> validation;  ///< may be empty
  std::string about_data;                   ///< "9469 pictures of 10 classes, validated on 3925"
};

/// `-m` is a model or an architecture (random weights). A new classifier has one class per folder
/// of the training pictures, in sorted order. Throws Error(invalid_argument) where the folders and
/// the model's classes do not fit.
TrainingSubject open_subject(const ParsedOptions& options);

/// A model by its word alone, without the attention and the classifier that `options` ask for:
/// bundled name, file or folder.
ModelSource open_other_model(const std::string& word);

}  // namespace hydrascope::app
