// The module of OpenCV's codecs of pictures.
#include "model/image/opencv/modules.h"

#include <opencv2/core.hpp>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>

namespace hydrascope::opencv {
namespace {

/// Keeps OpenCV's logger off the terminal, as errors carry the reasons, and OpenCV on the calling
/// thread: pictures are decoded side by side, not each by many threads.
const bool kIsConfigured = [] {
  cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
  cv::setNumThreads(1);
  return true;
}();

cv::Mat view_of(std::span<const std::byte> bytes) {
  // imdecode takes its input by const reference but a Mat header needs a mutable pointer.
  auto* data = const_cast<std::byte*>(bytes.data());
  return {1, static_cast<int>(bytes.size()), CV_8UC1, data};
}

/// The result of `work`, or false with the reason of OpenCV's exception.
template <class Work>
bool guarded(std::string& why, Work work) {
  try {
    return work();
  } catch (const cv::Exception& error) {
    if (error.code == cv::Error::StsNoMem) throw std::bad_alloc();
    why = error.err;
    return false;
  }
}

bool decode_opaque(std::span<const std::byte> file, int width, int height, std::uint8_t* rgb,
                   std::string& why) {
  return guarded(why, [&] {
    cv::Mat pixels(height, width, CV_8UC3, rgb);
    // Not into `pixels`: OpenCV 4.6 returns a given matrix unchanged if decoding fails.
    const cv::Mat decoded =
        cv::imdecode(view_of(file), cv::IMREAD_COLOR | cv::IMREAD_IGNORE_ORIENTATION);
    if (decoded.empty()) return false;
    if (decoded.size() != pixels.size()) {
      why = "its size is not the one its header declares";
      return false;
    }
    cv::cvtColor(decoded, pixels, cv::COLOR_BGR2RGB);
    return true;
  });
}

bool decode(std::span<const std::byte> file, Samples& samples, std::string& why) {
  return guarded(why, [&] {
    const auto pixels =
        std::make_shared<cv::Mat>(cv::imdecode(view_of(file), cv::IMREAD_UNCHANGED));
    if (pixels->empty()) return false;
    const int depth = pixels->depth();
    samples = {pixels->cols,
               pixels->rows,
               pixels->channels(),
               depth == CV_8U    ? 8
               : depth == CV_16U ? 16
                                 : 0,
               pixels->ptr(),
               pixels->step[0],
               pixels};
    return true;
  });
}

/// PNG keeps OpenCV's own choice (filter Sub, runs only, zlib level 1): a photograph of 1080p takes
/// 60 ms and 3.1 MB. Any explicit level selects other filters and takes 90 to 200 ms for 0 to 10 %
/// less.
std::vector<int> parameters(std::string_view extension, int quality) {
  if (extension == ".jpg") return {cv::IMWRITE_JPEG_QUALITY, quality};
  return {};
}

bool encode(const std::uint8_t* rgb, int width, int height, const char* extension, int quality,
            std::vector<std::byte>& file, std::string& why) {
  return guarded(why, [&] {
    // A Mat header needs a mutable pointer; cvtColor only reads.
    const cv::Mat canvas(height, width, CV_8UC3, const_cast<std::uint8_t*>(rgb));
    cv::Mat swapped;
    cv::cvtColor(canvas, swapped, cv::COLOR_RGB2BGR);
    std::vector<std::uint8_t> encoded;
    if (!cv::imencode(extension, swapped, encoded, parameters(extension, quality))) return false;
    file.resize(encoded.size());
    std::memcpy(file.data(), encoded.data(), encoded.size());
    return true;
  });
}

constexpr PictureCodecs kCodecs{decode_opaque, decode, encode};

}  // namespace
}  // namespace hydrascope::opencv

extern "C" const hydrascope::opencv::PictureCodecs* hydrascope_picture_codecs() {
  return &hydrascope::opencv::kCodecs;
}
