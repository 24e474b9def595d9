// Pictures that `--precision int8` is calibrated on.
#pragma once

#include "app/model_source.h"
#include "app/options.h"

#include <ATen/core/Tensor.h>

namespace hydrascope::app {

/// At most 32 pictures of `--calibration` (spread evenly over what it names; the bundled
/// photographs when it is not given), transformed as the model wants them at its own size: (B, 3,
/// H, W). Undefined with `--calibration none`. A picture that cannot be read is left out with a
/// note; Error when none can.
at::Tensor calibration_images(const ParsedOptions& options, const ModelSource& source);

}  // namespace hydrascope::app
