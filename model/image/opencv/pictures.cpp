// The module of OpenCV's codecs of pictures.
#include "model/image/opencv/modules.h"

#include <opencv2/core.hpp>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <new>
#include <string>
#include <string_view>

namespace hydrascope::opencv {
namespace {

/// Keeps OpenCV's logger off the terminal, as what fails is in the error, and OpenCV on the calling
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

/// What libtiff says is wrong with the file that this thread decodes. OpenCV has it go on behind
/// damaged data, and throws its messages away.
thread_local std::string g_tiff_error;

void keep_tiff_error(const char*, const char* format, std::va_list values) {
  std::array<char, 200> text{};
  std::vsnprintf(text.data(), text.size(), format, values);
  g_tiff_error = text.data();
}

/// Listens to libtiff, where OpenCV uses the system's. It sets its own handler with the first TIFF
/// that it reads: that one is read twice.
void listen_to_tiff(std::span<const std::byte> file) {
  const bool is_tiff = file.size() > 1 && file[0] == file[1] &&
                       (file[0] == std::byte{'I'} || file[0] == std::byte{'M'});
  if (!is_tiff) return;
  static const bool is_listening = [&] {
    std::string ignored;
    guarded(ignored, [&] { return cv::imdecode(view_of(file), cv::IMREAD_UNCHANGED).empty(); });
    using Handler = void (*)(const char*, const char*, std::va_list);
    void* found = ::dlsym(RTLD_DEFAULT, "TIFFSetErrorHandler");
    if (found != nullptr) reinterpret_cast<Handler (*)(Handler)>(found)(keep_tiff_error);
    return found != nullptr;
  }();
  static_cast<void>(is_listening);
}

bool decode_opaque(std::span<const std::byte> file, int width, int height, std::uint8_t* rgb,
                   std::string& why) {
  return guarded(why, [&] {
    cv::Mat pixels(height, width, CV_8UC3, rgb);
    // Not into `pixels`: OpenCV 4.6 gives a matrix of its caller back as it was where decoding fails.
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
    listen_to_tiff(file);
    g_tiff_error.clear();
    const cv::Mat pixels = cv::imdecode(view_of(file), cv::IMREAD_UNCHANGED);
    why = g_tiff_error;
    if (pixels.empty() || !why.empty()) return false;
    samples = {pixels.cols,
               pixels.rows,
               pixels.channels(),
               pixels.depth() == CV_8U    ? 8
               : pixels.depth() == CV_16U ? 16
                                          : 0,
               {}};
    if (samples.bits == 0) return true;
    const std::size_t row = static_cast<std::size_t>(pixels.cols) * pixels.elemSize();
    samples.bytes.resize(row * static_cast<std::size_t>(pixels.rows));
    for (int y = 0; y < pixels.rows; ++y)
      std::memcpy(samples.bytes.data() + static_cast<std::size_t>(y) * row, pixels.ptr(y), row);
    return true;
  });
}

/// PNG: OpenCV's own choice (filter Sub, runs only, zlib level 1) stays. A photograph of 1080p
/// takes 60 ms and 3.1 MB; any level that is asked for selects other filters and takes 90 to 200 ms
/// for 0 to 10 % less.
std::vector<int> parameters(std::string_view extension, int quality) {
  if (extension == ".jpg") return {cv::IMWRITE_JPEG_QUALITY, quality};
  if (extension == ".webp") return {cv::IMWRITE_WEBP_QUALITY, quality};
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
