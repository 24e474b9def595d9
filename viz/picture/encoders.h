// What encodes in this build; encode.h is the door.
#pragma once

#include "viz/picture/encode.h"

namespace hydrascope::viz {

/// OpenCV's: every format. stb_image_write's: PNG and JPEG.
std::vector<std::byte> encode_pixels(const Canvas& canvas, ImageFormat format, int quality);

}  // namespace hydrascope::viz
