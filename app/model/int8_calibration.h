// Pictures that `--precision int8` is calibrated on.
#pragma once

#include "app/model/model_source.h"
#include "app/run/console.h"

#include <ATen/core/Tensor.h>

#include <string>

namespace hydrascope::app {

/// At most 32 pictures of `--calibration` (spread evenly over what it names; the bundled
/// photographs when it is not given), transformed as pictures of this run are, at the model's own size:
/// (B, 3, H, W). Undefined with `--calibration none`. A picture that cannot be read is left out with a
/// note; Error when none can.
at::Tensor calibration_images(const std::string& word, const ModelSource& source,
                              image::TransformConfig transform, const Console& console);

}  // namespace hydrascope::app
