#include "kernels/error.h"
#include "model/image/byte_view.h"
#include "model/image/decoders.h"

#ifdef HYDRASCOPE_WITH_OPENCV
#include "model/image/captured_messages.h"
#include "model/image/tiff_directory.h"
#include "model/image/webp_still.h"

#include <opencv2/core.hpp>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#endif

#include <string>
#include <string_view>

namespace hydrascope::image {

#ifdef HYDRASCOPE_WITH_OPENCV
namespace {

/// Keeps OpenCV's logger off the terminal, as what fails is in the error, and OpenCV on the calling
/// thread: pictures are decoded side by side, not each by many threads.
const bool kIsConfigured = [] {
  cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
  cv::setNumThreads(1);
  return true;
}();

/// OpenCV wraps its reasons: "imdecode_(''): can't read data: OpenCV(4.6.0) FILE:LINE: error:
/// (-2:Unspecified error) REASON in function 'readData'".
std::string unwrap(std::string reason) {
  constexpr std::string_view kBefore = "error) ";
  const std::size_t before = reason.find(kBefore);
  if (before != reason.npos) reason.erase(0, before + kBefore.size());
  return reason.substr(0, reason.find(" in function"));
}

[[noreturn]] void fail(const std::string& reason) {
  const std::string unwrapped = unwrap(reason);
  throw Error(ErrorCode::decode_failed,
              "OpenCV cannot decode it" + (unwrapped.empty() ? "" : ": " + unwrapped));
}

/// OpenCV drops the alpha of grey TIFFs and takes CIELab for something else; neither is right.
void check_tiff(ByteView file) {
  constexpr std::uint32_t kLastGreyPhotometric = 1;
  constexpr std::uint32_t kCieLab = 8;
  const TiffDirectory directory = read_tiff_directory(file);
  const bool is_grey_with_alpha =
      directory.photometric <= kLastGreyPhotometric && directory.samples_per_pixel > 1;
  if (is_grey_with_alpha || directory.photometric == kCieLab) {
    throw Error(ErrorCode::unsupported_format,
                is_grey_with_alpha ? "grey TIFF with alpha" : "TIFF in CIELab colours", {},
                "convert it to PNG first");
  }
}

cv::Mat view_of(std::span<const std::byte> bytes) {
  // imdecode takes its input by const reference but a Mat header needs a mutable pointer.
  auto* data = const_cast<std::byte*>(bytes.data());
  return cv::Mat(1, static_cast<int>(bytes.size()), CV_8UC1, data);
}

/// For formats of 8-bit grey or colour without alpha: no second copy of the pixels.
Picture decode_opaque(std::span<const std::byte> bytes, const Header& header,
                      const CapturedMessages& messages) {
  Picture picture = make_picture(header.width, header.height);
  cv::Mat pixels(picture.height, picture.width, CV_8UC3, picture.rgb.data());
  const cv::Mat decoded =
      cv::imdecode(view_of(bytes), cv::IMREAD_COLOR | cv::IMREAD_IGNORE_ORIENTATION, &pixels);
  if (decoded.empty()) fail(messages.text());
  if (decoded.data != picture.rgb.data()) fail("its size is not the one its header declares");
  cv::cvtColor(decoded, pixels, cv::COLOR_BGR2RGB);
  return picture;
}

/// Drops the low byte of 16-bit samples, as libpng's png_set_strip_16 does.
void keep_high_bytes(cv::Mat& pixels) {
  cv::Mat high(pixels.rows, pixels.cols, CV_MAKETYPE(CV_8U, pixels.channels()));
  const int row_samples = pixels.cols * pixels.channels();
  for (int y = 0; y < pixels.rows; ++y) {
    const auto* from = pixels.ptr<std::uint16_t>(y);
    auto* to = high.ptr<std::uint8_t>(y);
    for (int i = 0; i < row_samples; ++i) to[i] = static_cast<std::uint8_t>(from[i] >> 8);
  }
  pixels = high;
}

Picture decode_any(std::span<const std::byte> bytes, const Header& header, const Colour& background,
                   const CapturedMessages& messages) {
  cv::Mat pixels = cv::imdecode(view_of(bytes), cv::IMREAD_UNCHANGED);
  if (pixels.empty()) fail(messages.text());
  // OpenCV reads 8-bit TIFF through libtiff's RGBA interface, which multiplies by alpha.
  const bool premultiplied = header.format == "tiff" && pixels.depth() == CV_8U;
  const SampleLayout layout{.channels = pixels.channels(),
                            .order = ChannelOrder::bgr,
                            .alpha = premultiplied ? Alpha::premultiplied : Alpha::straight};
  if (pixels.depth() == CV_16U) keep_high_bytes(pixels);
  if (pixels.depth() != CV_8U || pixels.channels() > 4) {
    throw Error(ErrorCode::unsupported_format,
                "samples that are neither 8-bit nor 16-bit unsigned integers, or more than four "
                "channels");
  }
  Picture picture = make_picture(pixels.cols, pixels.rows);
  const std::size_t row = static_cast<std::size_t>(pixels.cols);
  for (int y = 0; y < pixels.rows; ++y) {
    to_rgb8(pixels.ptr<std::uint8_t>(y), layout, background,
            picture.rgb.data() + static_cast<std::size_t>(y) * row * 3, row);
  }
  return picture;
}

/// A grey PNG whose transparency is one grey value: OpenCV drops the transparency.
bool is_keyed_grey_png(ByteView file) {
  constexpr std::uint32_t kGrey = 0;
  if (file.u8(25) != kGrey) return false;
  for (std::size_t at = 8; at + 12 <= file.size() && !file.holds(at + 4, "IDAT");) {
    if (file.holds(at + 4, "tRNS")) return true;
    at += 12 + std::size_t{file.u32_big(at)};
  }
  return false;
}

/// OpenCV widens the 5 or 6 bits of a 16-bit BMP's colours by a shift, so that white is not white.
bool is_16_bit_bmp(ByteView file) { return file.u32_little(14) >= 40 && file.u16_little(28) == 16; }

}  // namespace

bool opencv_decodes(const Header& header, std::span<const std::byte> bytes) {
  if (header.format == "gif" || header.format == "psd") return false;
  if (header.format == "png") return !is_keyed_grey_png(ByteView(bytes));
  if (header.format == "bmp") return !is_16_bit_bmp(ByteView(bytes));
  return true;
}

Picture decode_with_opencv(std::span<const std::byte> bytes, const Header& header,
                           const Colour& background) {
  const CapturedMessages messages;
  try {
    if (header.format == "jpeg") return decode_opaque(bytes, header, messages);
    if (header.format == "webp") {
      if (const auto still = extract_first_webp_frame(bytes)) {
        return decode_any(*still, header, background, messages);
      }
    }
    if (header.format == "tiff") check_tiff(ByteView(bytes));
    return decode_any(bytes, header, background, messages);
  } catch (const cv::Exception& error) {
    if (error.code == cv::Error::StsNoMem) throw Error(ErrorCode::out_of_memory, error.err);
    fail(error.err);
  }
}

std::string opencv_name() { return "OpenCV " + cv::getVersionString(); }

#else

bool opencv_decodes(const Header&, std::span<const std::byte>) { return false; }

Picture decode_with_opencv(std::span<const std::byte>, const Header&, const Colour&) {
  throw Error(ErrorCode::unsupported_format, "this build has no OpenCV");
}

std::string opencv_name() { return ""; }

#endif

}  // namespace hydrascope::image
