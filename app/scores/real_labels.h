// Several valid labels per picture ("ReaL", Beyer et al. 2020, Are we done with ImageNet?, arXiv
// 2006.07159).
#pragma once

#include "app/pictures/labelled_set.h"

#include <cstdint>
#include <filesystem>

namespace hydrascope::app {

/// Gives the pictures of `set` the lists of `file`, a JSON array of arrays of class indices, one a
/// picture; an empty one where no class is valid. ImageNet's validation pictures
/// (ILSVRC2012_val_00000042.JPEG) find theirs by number, in any order and any part of the set; of
/// other pictures there must be as many as lists, in the set's order. Throws
/// Error(invalid_argument).
void read_real_labels(const std::filesystem::path& file, std::int64_t num_classes,
                      LabelledSet& set);

}  // namespace hydrascope::app
