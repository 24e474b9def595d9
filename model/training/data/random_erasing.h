// Random erasing (Zhong et al. 2020, arXiv 1708.04896) as timm does it, on normalised pictures.
#pragma once

#include "model/image/transform_plan.h"
#include "model/training/data/random_stream.h"

namespace hydrascope::model::training {

struct ErasingOptions {
  double probability = 0;
  int most_boxes = 1;
  bool with_noise = true;  ///< normal, for every value; otherwise 0
};

/// image: float32 (3, height, width). Erases one to `most_boxes` boxes that share 2 to 33 percent
/// of the area, with aspects between 0.3 and 1 / 0.3; each has ten tries to fit in.
void erase_randomly(const ErasingOptions& options, image::Size size, float* image,
                    RandomStream& stream);

}  // namespace hydrascope::model::training
