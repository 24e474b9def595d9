// Which pictures `evaluate` and its sisters take, with which labels.
#pragma once

#include "app/evaluate/evaluate_options.h"
#include "app/pictures/labelled_set.h"
#include "model/image/labels.h"

#include <cstdint>

namespace hydrascope::app {

/// Jobs that need no labels take any pictures: without a label file, a folder of folders has
/// labels, everything else has none. Throws Error(invalid_argument) also for a target
/// that is no class of the model, and for options that need labels where there are none;
/// Error(empty) without pictures.
LabelledSet read_evaluated_set(const SetRequest& request, const image::Labels& labels,
                               std::int64_t num_classes);

}  // namespace hydrascope::app
