#include "kernels/error.h"
#include "viz/encoders.h"

#ifdef HYDRASCOPE_WITH_OPENCV
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>

#include <cstring>
#include <new>
#include <string>

namespace hydrascope::viz {
namespace {

/// OpenCV's order of channels.
cv::Mat blue_green_red(const Canvas& canvas) {
  cv::Mat swapped(canvas.height, canvas.width, CV_8UC3);
  const std::uint8_t* from = canvas.rgb.data();
  for (int y = 0; y < canvas.height; ++y) {
    std::uint8_t* to = swapped.ptr<std::uint8_t>(y);
    for (int x = 0; x < canvas.width; ++x, from += 3, to += 3) {
      to[0] = from[2];
      to[1] = from[1];
      to[2] = from[0];
    }
  }
  return swapped;
}

/// PNG: OpenCV's own choice (filter Sub, runs only, zlib level 1) stays. A photograph of 1080p
/// takes 60 ms and 3.1 MB; any level that is asked for selects other filters and takes 90 to 200 ms
/// for 0 to 10 % less.
std::vector<int> parameters(ImageFormat format, int quality) {
  switch (format) {
    case ImageFormat::png: return {};
    case ImageFormat::jpeg: return {cv::IMWRITE_JPEG_QUALITY, quality};
    case ImageFormat::webp: return {cv::IMWRITE_WEBP_QUALITY, quality};
  }
  return {};
}

}  // namespace

std::vector<std::byte> encode_with_opencv(const Canvas& canvas, ImageFormat format, int quality) {
  std::vector<std::uint8_t> encoded;
  try {
    if (!cv::imencode(std::string(extension(format)), blue_green_red(canvas), encoded,
                      parameters(format, quality)))
      throw Error(ErrorCode::failed,
                  "OpenCV cannot encode a picture as " + std::string(extension(format).substr(1)));
  } catch (const cv::Exception& error) {
    if (error.code == cv::Error::StsNoMem) throw std::bad_alloc();
    throw Error(ErrorCode::failed, "OpenCV cannot encode a picture: " + error.err);
  }
  std::vector<std::byte> bytes(encoded.size());
  std::memcpy(bytes.data(), encoded.data(), encoded.size());
  return bytes;
}

}  // namespace hydrascope::viz
#endif
