// The subject of a run: the model, its classes, its pictures.
#pragma once

#include "app/model/resolve_labels.h"
#include "app/model/resolved_transform.h"
#include "app/pictures/labelled_set.h"
#include "app/train/training_options.h"
#include "model/training/data/training_set.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

struct TrainingSubject {
  ModelSource source;  ///< its configuration has the number of classes
  ResolvedTransform transform;
  ResolvedLabels labels;
  std::vector<model::training::TrainingPicture> training;
  std::vector<LabelledPicture> validation;  ///< may be empty
  std::vector<Input> failed;                ///< what cannot be learned from
  std::vector<std::string> notes;           ///< on what was passed over
  std::string about_data;                   ///< "9469 pictures of 10 classes, validated on 3925"
};

/// `-m` is a model or an architecture (random weights). A new classifier has one class per folder
/// of the training pictures, in the order of `class_folders`. Throws Error(invalid_argument) where
/// the folders and the model's classes do not fit.
TrainingSubject open_subject(const TrainingRequest& request, double held_out);

}  // namespace hydrascope::app
