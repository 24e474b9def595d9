// From the map of a pass over a large picture to views of its parts, and to one answer of these.
#pragma once

#include "app/pipeline/pipeline.h"
#include "model/image/transform_plan.h"
#include "model/inference/engine.h"
#include "model/zoom/views.h"

#include <cstdint>

namespace hydrascope::app {

/// Takes a result without an error that has its `pixels`, and its map by `PipelineOptions::finder`. Parts are cut
/// out of the picture as decoded, and prepared as `of_parts` says for `engine`; the whole as `of_whole` does. The
/// answer of these views becomes the result's: logits are then logarithms of probabilities. Returns the number of views.
std::int64_t zoom(PipelineResult& result, zoom::AttentionMap map, model::inference::Engine& engine,
                  const image::TransformConfig& of_parts, const image::TransformConfig& of_whole);

}  // namespace hydrascope::app
