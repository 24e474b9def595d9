// From the results of the pipeline to the classes that records name.
#pragma once

#include "app/pipeline/pipeline.h"
#include "app/results/record.h"
#include "model/image/labels.h"

#include <cstdint>
#include <span>
#include <vector>

namespace hydrascope::app {

/// The `count` best classes of a result without an error; all where there are fewer. Of a picture
/// in several views each has the probability, the logit and the box of its best view.
std::vector<Prediction> top_classes(const PipelineResult& result, std::int64_t count,
                                    const image::Labels& labels);
/// Those of `indices`, in their order, with their ranks among all.
std::vector<Prediction> chosen_classes(const PipelineResult& result,
                                       std::span<const std::int64_t> indices,
                                       const image::Labels& labels);

}  // namespace hydrascope::app
