// The size that a model was trained at, for a note on pictures that are far larger.
#pragma once

#include "model/image/transform_plan.h"

#include <string>

namespace hydrascope::app {

struct TrainedSize {
  std::string model;  ///< its name
  image::Size size;
  std::string advice;  ///< what is added to the note: "; NAME is made for large pictures", or ""
};

}  // namespace hydrascope::app
