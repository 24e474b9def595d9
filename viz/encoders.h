// What encodes in this build; encode.h is the door.
#pragma once

#include "viz/encode.h"

namespace hydrascope::viz {

#ifdef HYDRASCOPE_WITH_OPENCV
/// Every format.
std::vector<std::byte> encode_with_opencv(const Canvas& canvas, ImageFormat format, int quality);
#else
/// PNG and JPEG.
std::vector<std::byte> encode_with_stb(const Canvas& canvas, ImageFormat format, int quality);
#endif

}  // namespace hydrascope::viz
