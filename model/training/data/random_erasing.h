// Random erasing (Zhong et al. 2020, arXiv 1708.04896) as timm does it, on normalised pictures.
#pragma once

#include "model/image/transform_plan.h"
#include "model/training/data/random_stream.h"

namespace hydrascope::model::training {

/// image: float32 (3, height, width). With `probability` a box of 2 to 33 percent of the area, with
/// an aspect between 0.3 and 1 / 0.3, becomes normal noise; it has ten tries to fit in.
void erase_randomly(double probability, image::Size size, float* image, RandomStream& stream);

}  // namespace hydrascope::model::training
