#include "kernels/error.h"
#include "model/image/decoders/byte_view.h"
#include "model/image/decoders/decoders.h"

#ifdef HYDRASCOPE_WITH_OPENCV
#include "model/image/decoders/captured_messages.h"
#include "model/image/decoders/webp_still.h"
#include "model/image/opencv/modules.h"
#include "model/image/picture_formats.h"

#include <opencv2/core/version.hpp>
#endif

#include <algorithm>
#include <bit>
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

/// Throws with the captured messages if OpenCV gives no reason.
[[noreturn]] void fail(const std::string& reason, const CapturedMessages& messages) {
  const std::string unwrapped = unwrap(reason.empty() ? messages.text() : reason);
  throw Error(ErrorCode::decode_failed,
              "OpenCV cannot decode it" + (unwrapped.empty() ? "" : ": " + unwrapped));
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

Picture decode_any(const Encoded& encoded, const Colour& background,
                   const CapturedMessages& messages) {
  opencv::Samples samples;
  std::string why;
  if (!opencv::picture_codecs().decode(encoded.bytes, samples, why)) fail(why, messages);
  encoded.forget_before(encoded.bytes.size());
  if (samples.bits == 0 || samples.channels > 4) {
    throw Error(ErrorCode::unsupported_format,
                "samples that are neither 8-bit nor 16-bit unsigned integers, or more than four "
                "channels");
  }
  const SampleLayout layout{.channels = samples.channels, .order = ChannelOrder::bgr};
  const auto count = static_cast<std::size_t>(samples.width);
  // The high byte of 16 bits is kept.
  static_assert(std::endian::native == std::endian::little);
  std::vector<std::uint8_t> high(
      samples.bits == 16 ? count * static_cast<std::size_t>(samples.channels) : 0);
  Picture picture = reserve_picture(samples.width, samples.height);
  for (int y = 0; y < samples.height; ++y) {
    const std::uint8_t* row = samples.data + static_cast<std::size_t>(y) * samples.row;
    for (std::size_t i = 0; i < high.size(); ++i) high[i] = row[2 * i + 1];
    to_rgb8(high.empty() ? row : high.data(), layout, background, add_row(picture), count);
    forget_pages(row, samples.row);
  }
  return picture;
}

/// Whether a JPEG 2000's box of colours says sYCC (ISO 15444-1, I.5.3.3), whose colours OpenCV
/// converts otherwise than Pillow.
bool is_ycc_jpeg2000(ByteView file) {
  constexpr std::uint32_t kEnumerated = 1;
  constexpr std::uint32_t kSycc = 18;
  for (std::size_t at = 0; at + 8 <= file.size() && !file.holds(at + 4, "jp2c");) {
    const std::size_t length = file.u32_big(at);
    if (file.holds(at + 4, "colr") && file.u8(at + 8) == kEnumerated)
      return file.u32_big(at + 11) == kSycc;
    if (!file.holds(at + 4, "jp2h") && length < 8) return false;
    at += file.holds(at + 4, "jp2h") ? 8 : length;
  }
  return false;
}

}  // namespace

bool opencv_decodes(const Header& header) {
  // WebP and JPEG 2000 have no second decoder, so they get OpenCV's reason.
  return header.format != "jpeg" || opencv::why_no_picture_codecs().empty();
}

Picture decode_with_opencv(const Encoded& encoded, const Header& header, const Colour& background) {
  const std::span<const std::byte> bytes = encoded.bytes;
  const CapturedMessages messages;
  try {
    if (header.format == "jpeg") return decode_opaque(bytes, header, messages);
    if (header.format == "webp") {
      if (const auto still = extract_first_webp_frame(bytes)) {
        return decode_any(Encoded(*still), background, messages);
      }
    }
    if (header.format == "jpeg2000" && is_ycc_jpeg2000(ByteView(bytes))) {
      throw Error(ErrorCode::unsupported_format, "JPEG 2000 in luma and chroma", {},
                  "convert it to PNG first");
    }
    return decode_any(encoded, background, messages);
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
    const PictureFormat* format = format_of_name(name);
    return format != nullptr && format->decoders == Decoders::opencv;
  };
  return std::ranges::any_of(names, is_loaded_for) ? opencv::load_picture_codecs_ahead()
                                                   : std::jthread();
}

#else

bool opencv_decodes(const Header&) { return false; }

Picture decode_with_opencv(const Encoded&, const Header& header, const Colour&) {
  throw Error(ErrorCode::unsupported_format,
              "this build has no OpenCV, which reads " + header.format, {},
              "build with OpenCV, or convert it to JPEG or PNG");
}

std::string opencv_name() { return ""; }

std::string why_no_opencv() { return ""; }

std::jthread prepare_to_decode(std::span<const std::string>) { return {}; }

#endif

}  // namespace hydrascope::image
