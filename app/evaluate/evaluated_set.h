// Which pictures `evaluate` and its sisters take, with which labels.
#pragma once

#include "app/evaluate/evaluate_options.h"
#include "app/pictures/inputs.h"
#include "app/pictures/labelled_set.h"
#include "model/image/labels.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hydrascope::app {

/// Jobs that need no labels take any pictures: without a label file, a folder of folders has
/// labels, everything else has none. Throws Error(invalid_argument) also for a target
/// that is no class of the model, and for options that need labels where there are none;
/// Error(empty) without pictures.
LabelledSet read_evaluated_set(const SetRequest& request, const image::Labels& labels,
                               std::int64_t num_classes);

/// Pictures without labels: files, folders, globs and lists, as InputStream has them, with what fails;
/// videos and pictures on standard input do. Throws Error with `command` as its subject where `words`
/// name nothing, and the first word's failure where there is nothing else.
LabelledSet read_unlabelled(const std::vector<std::string>& words, bool recursive,
                            const std::string& command);

/// For a pipeline: a picture, whatever its name ends in.
Input input_of(const LabelledPicture& picture);

/// `count` of the pictures, evenly spread: sets are sorted by class.
void thin_out(LabelledSet& set, std::size_t count);

}  // namespace hydrascope::app
