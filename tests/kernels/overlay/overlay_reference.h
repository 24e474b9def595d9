// The naive twin of overlay.h: its equations in float64, pixel by pixel.
#pragma once

#include "kernels/overlay/overlay.h"

#include <vector>

namespace hydrascope::kernels::overlay {

/// What `overlay` writes, unrounded: (height, width, 3). All memory is on the host.
std::vector<double> overlay_reference(const OverlayParams& params);

}  // namespace hydrascope::kernels::overlay
