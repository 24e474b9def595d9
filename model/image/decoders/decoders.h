// The decoders behind `decode`, one function each, and the conversions they share. Not for use
// outside this folder.
#pragma once

#include "model/image/decode.h"
#include "model/image/needed_pixels.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace hydrascope::image {

using Colour = std::array<std::uint8_t, 3>;

/// A file in memory. If the decoder owns the memory, decoded bytes go back to the system: a large
/// picture's file and pixels are never there at once.
class Encoded {
 public:
  Encoded(std::span<const std::byte> all, bool is_own = false) : bytes(all), is_own_(is_own) {}

  std::span<const std::byte> bytes;

  /// Nobody will read the bytes before `end`.
  void forget_before(std::size_t end) const { forget(forgotten_, end); }
  /// Nobody will read [begin, end); `begin` moves to `end` once that is worth its while.
  void forget(std::size_t& begin, std::size_t end) const;

 private:
  bool is_own_;
  mutable std::size_t forgotten_ = 0;
};

/// Gives whole pages of memory that is not read any more back to the system.
void forget_pages(const void* begin, std::size_t size);

/// A picture without rows, with room for all of them, which takes memory as rows are added. The
/// caller has checked the sizes (`decode` does). Throws `Error(out_of_memory)`.
Picture reserve_picture(std::int64_t width, std::int64_t height);
/// The pixels of a new row, which are zeros.
std::uint8_t* add_row(Picture& picture);
/// The same with all its rows, black.
Picture make_picture(std::int64_t width, std::int64_t height);

/// One of three colours, from inks that are not inverted; Pillow's formula.
constexpr std::uint8_t cmyk_to_rgb(std::uint8_t ink, std::uint8_t black) {
  const std::uint32_t light = 255U - black;
  const std::uint32_t product = ink * light + 128;
  return static_cast<std::uint8_t>(light - std::min(light, (product + (product >> 8)) >> 8));
}

/// The channel order of interleaved samples: OpenCV's decoders give blue first.
enum class ChannelOrder { rgb, bgr };

/// Whether colours are straight, or already multiplied by alpha / 255.
enum class Alpha { straight, premultiplied };

/// The layout of a decoder's samples: 1 (grey), 2 (grey, alpha), 3 or 4 (with alpha) channels.
struct SampleLayout {
  int channels = 3;
  ChannelOrder order = ChannelOrder::rgb;
  Alpha alpha = Alpha::straight;
};

/// `count` pixels -> RGB: round((colour * alpha + background * (255 - alpha)) / 255), the result of
/// Pillow's `background.paste(picture, mask=alpha)`.
void to_rgb8(const std::uint8_t* samples, const SampleLayout& layout, const Colour& background,
             std::uint8_t* rgb, std::size_t count);

/// Whether OpenCV is in this build, and can be loaded or is the only reader of the format.
bool opencv_decodes(const Header& header);

/// Throw `Error` with `decode_failed`, `unsupported_format` or `out_of_memory`. All give pictures
/// as stored: no orientation is applied.
Picture decode_with_opencv(const Encoded& encoded, const Header& header, const Colour& background);
/// JPEG as Pillow reads it: data that end within the picture are an error, a missing end is none.
Picture decode_with_libjpeg(const Encoded& encoded, const Header& header, const PixelBox& needed);
extern const bool has_libjpeg;
Picture decode_bmp(const Encoded& encoded, const Header& header, const Colour& background);
Picture decode_gif(const Encoded& encoded, const Header& header, const Colour& background);
Picture decode_png(const Encoded& encoded, const Colour& background);
Picture decode_psd(const Encoded& encoded, const Header& header, const Colour& background);
Picture decode_tiff(const Encoded& encoded, const Colour& background);
/// JPEG, in a build without libjpeg and OpenCV.
Picture decode_with_stb(const Encoded& encoded);
Picture decode_pnm(const Encoded& encoded);

/// Empty when this build has no OpenCV or cannot load it, otherwise "OpenCV 4.6.0".
std::string opencv_name();
/// The reason why a build with OpenCV cannot load it; otherwise empty.
std::string why_no_opencv();
std::string stb_name();

/// Why a JPEG cannot be whole, or "" when nothing is amiss. OpenCV and stb_image do not tell: they
/// fill up a JPEG that ends early with grey or black.
std::string find_jpeg_damage(std::span<const std::byte> bytes);

}  // namespace hydrascope::image
