#include "kernels/error.h"
#include "model/image/decoders/byte_view.h"
#include "model/image/decoders/decoders.h"

#ifdef HYDRASCOPE_WITH_OPENCV
#include "model/image/decoders/captured_messages.h"
#include "model/image/decoders/tiff_directory.h"
#include "model/image/decoders/webp_still.h"
#include "model/image/opencv/modules.h"

#include <opencv2/core/version.hpp>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::image {

#ifdef HYDRASCOPE_WITH_OPENCV
namespace {

/// OpenCV wraps its reasons: "imdecode_(''): can't read data: OpenCV(4.6.0) FILE:LINE: error:
/// (-2:Unspecified error) REASON in function 'readData'".
std::string unwrap(std::string reason) {
  constexpr std::string_view kBefore = "error) ";
  const std::size_t before = reason.find(kBefore);
  if (before != reason.npos) reason.erase(0, before + kBefore.size());
  return reason.substr(0, reason.find(" in function"));
}

/// With what was printed, where OpenCV gives no reason.
[[noreturn]] void fail(const std::string& reason, const CapturedMessages& messages) {
  const std::string unwrapped = unwrap(reason.empty() ? messages.text() : reason);
  throw Error(ErrorCode::decode_failed,
              "OpenCV cannot decode it" + (unwrapped.empty() ? "" : ": " + unwrapped));
}

constexpr std::array<std::string_view, 5> kLoadedFor{".png", ".webp", ".tif", ".tiff", ".bmp"};

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

/// For formats of 8-bit grey or colour without alpha: no second copy of the pixels.
Picture decode_opaque(std::span<const std::byte> bytes, const Header& header,
                      const CapturedMessages& messages) {
  Picture picture = make_picture(header.width, header.height);
  std::string why;
  if (!opencv::picture_codecs().decode_opaque(bytes, picture.width, picture.height,
                                              picture.rgb.data(), why))
    fail(why, messages);
  return picture;
}

/// Drops the low byte of 16-bit samples, as libpng's png_set_strip_16 does.
void keep_high_bytes(std::vector<std::uint8_t>& bytes) {
  static_assert(std::endian::native == std::endian::little);
  for (std::size_t i = 0; i < bytes.size() / 2; ++i) bytes[i] = bytes[2 * i + 1];
}

Picture decode_any(std::span<const std::byte> bytes, const Header& header, const Colour& background,
                   const CapturedMessages& messages) {
  opencv::Samples samples;
  std::string why;
  if (!opencv::picture_codecs().decode(bytes, samples, why)) fail(why, messages);
  // OpenCV reads 8-bit TIFF through libtiff's RGBA interface, which multiplies by alpha.
  const bool premultiplied = header.format == "tiff" && samples.bits == 8;
  const SampleLayout layout{.channels = samples.channels,
                            .order = ChannelOrder::bgr,
                            .alpha = premultiplied ? Alpha::premultiplied : Alpha::straight};
  if (samples.bits == 16) keep_high_bytes(samples.bytes);
  if (samples.bits == 0 || samples.channels > 4) {
    throw Error(ErrorCode::unsupported_format,
                "samples that are neither 8-bit nor 16-bit unsigned integers, or more than four "
                "channels");
  }
  Picture picture = make_picture(samples.width, samples.height);
  to_rgb8(samples.bytes.data(), layout, background, picture.rgb.data(), picture.rgb.size() / 3);
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
  if (header.format == "png" && is_keyed_grey_png(ByteView(bytes))) return false;
  if (header.format == "bmp" && is_16_bit_bmp(ByteView(bytes))) return false;
  // The others have no second decoder: what OpenCV lacks is their error.
  const bool stb_decodes =
      header.format == "png" || header.format == "bmp" || header.format == "jpeg";
  return !stb_decodes || opencv::why_no_picture_codecs().empty();
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
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory, "no memory to decode the picture");
  }
}

std::string opencv_name() {
  return opencv::why_no_picture_codecs().empty() ? "OpenCV " CV_VERSION : "";
}

std::string why_no_opencv() { return opencv::why_no_picture_codecs(); }

std::jthread prepare_to_decode(std::span<const std::string> names) {
  const auto is_loaded_for = [](const std::string& name) {
    std::string extension = name.substr(std::min(name.rfind('.'), name.size()));
    std::ranges::transform(extension, extension.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return std::ranges::find(kLoadedFor, extension) != kLoadedFor.end();
  };
  return std::ranges::any_of(names, is_loaded_for) ? opencv::load_picture_codecs_ahead()
                                                   : std::jthread();
}

#else

bool opencv_decodes(const Header&, std::span<const std::byte>) { return false; }

Picture decode_with_opencv(std::span<const std::byte>, const Header&, const Colour&) {
  throw Error(ErrorCode::unsupported_format, "this build has no OpenCV");
}

std::string opencv_name() { return ""; }

std::string why_no_opencv() { return ""; }

std::jthread prepare_to_decode(std::span<const std::string>) { return {}; }

#endif

}  // namespace hydrascope::image
