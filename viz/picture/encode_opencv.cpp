#include "kernels/error.h"
#include "viz/picture/encoders.h"

#ifdef HYDRASCOPE_WITH_OPENCV
#include "model/image/opencv/modules.h"

#include <string>

namespace hydrascope::viz {

std::vector<std::byte> encode_with_opencv(const Canvas& canvas, ImageFormat format, int quality) {
  std::vector<std::byte> bytes;
  std::string why;
  const std::string extension(viz::extension(format));
  if (!opencv::picture_codecs().encode(canvas.rgb.data(), canvas.width, canvas.height,
                                       extension.c_str(), quality, bytes, why)) {
    throw Error(ErrorCode::failed, "OpenCV cannot encode a picture as " + extension.substr(1) +
                                       (why.empty() ? "" : ": " + why));
  }
  return bytes;
}

}  // namespace hydrascope::viz
#endif
