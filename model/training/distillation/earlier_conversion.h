// A conversion that begins with the layers of earlier ones (`convert --start`).
#pragma once

#include "model/checkpoint/checkpoint.h"
#include "model/vision_transformer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hydrascope::model::training {

/// Gives `student` what `earlier` holds of the blocks from `first` on whose attention is the same,
/// and of all that is no block's; returns those blocks, ascending. Throws Error(invalid_argument)
/// where there are none and for a model that was converted from another one than the student's, the
/// file of `parent_sha256` ("" if there is none), and what `Checkpoint::start_loading` throws.
std::vector<std::int64_t> take_over_layers(const checkpoint::Checkpoint& earlier,
                                           std::int64_t first, const std::string& parent_sha256,
                                           VisionTransformerImpl& student);

}  // namespace hydrascope::model::training
