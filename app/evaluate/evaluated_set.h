// Which pictures `evaluate` takes, with which labels. Free of LibTorch.
#pragma once

#include "app/inputs.h"
#include "app/labelled_set.h"
#include "app/options.h"
#include "model/image/labels.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::app {

/// The folder that the options name, by `--labels-csv`, `--real-labels`, `--no-labels` and
/// `--limit-images`. Without a label file, a folder without folders has no labels where something
/// is asked for that needs none. Throws Error(invalid_argument) also for a target that is no class
/// of the model, and for options that need labels where there are none; Error(empty) without
/// pictures.
LabelledSet read_evaluated_set(const ParsedOptions& options, const image::Labels& labels,
                               std::int64_t num_classes);

/// For a pipeline: a picture, whatever its name ends in.
Input input_of(const LabelledPicture& picture);

/// `count` of the pictures, evenly spread: sets are sorted by class.
void thin_out(LabelledSet& set, std::size_t count);

}  // namespace hydrascope::app
