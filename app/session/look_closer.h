// From the map of a pass over a picture to closer looks at its parts, and to one answer of these.
#pragma once

#include "app/pipeline/pipeline.h"
#include "model/image/transform_plan.h"
#include "model/inference/engine.h"
#include "model/look/places.h"

#include <cstdint>

namespace hydrascope::app {

/// Takes a result without an error that has its `pixels`, and its map. Looks are cut out of the
/// picture as decoded, and prepared as `transform` says for `engine`, whose classes are the pass's. Their answer
/// takes the place of the pass's: logits are then logarithms of probabilities. Returns the number of looks.
std::int64_t look_closer(PipelineResult& result, const look::AttentionMap& map,
                         model::inference::Engine& engine, const image::TransformConfig& transform);

}  // namespace hydrascope::app
