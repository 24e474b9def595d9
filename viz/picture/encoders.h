// The encoders; encode.h is the door.
#pragma once

#include "viz/picture/encode.h"

namespace hydrascope::viz {

/// Every format; only in builds with OpenCV. Throws Error(unsupported_format) where it cannot be
/// loaded, Error(failed) where it cannot encode.
std::vector<std::byte> encode_with_opencv(const Canvas& canvas, ImageFormat format, int quality);
/// PNG and JPEG. Throws Error(too_large), std::bad_alloc.
std::vector<std::byte> encode_with_stb(const Canvas& canvas, ImageFormat format, int quality);

}  // namespace hydrascope::viz
