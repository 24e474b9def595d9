// From what the evaluation transform does to where its result lies on the picture.
#pragma once

#include "app/results/record.h"
#include "model/image/transform_plan.h"
#include "viz/heat/placement.h"

namespace hydrascope::app {

/// Where the patches (`patch_size` pixels square) of the model's input lie on a picture of size
/// `picture`, after EXIF orientation, that `plan` was made for.
viz::Placement placement_of(const image::TransformPlan& plan, image::Size picture,
                            std::int64_t patch_size);

/// The part of the picture that the model saw.
Box box_of(const image::TransformPlan& plan, image::Size picture);

}  // namespace hydrascope::app
