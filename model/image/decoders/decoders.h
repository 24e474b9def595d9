// What stands behind `decode`: one function per decoder, and the conversions they share. Not for
// use outside this folder.
#pragma once

#include "model/image/decode.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::image {

using Colour = std::array<std::uint8_t, 3>;

/// A picture with room for its pixels. Sizes were checked by the caller (`decode` does).
/// Throws `Error(out_of_memory)`.
Picture make_picture(std::int64_t width, std::int64_t height);

/// The channel order of interleaved samples: OpenCV's decoders give blue first.
enum class ChannelOrder { rgb, bgr };

/// Whether colours are as they would be without alpha, or already multiplied by alpha / 255.
enum class Alpha { straight, premultiplied };

/// How the samples of a decoder are laid out: 1 (grey), 2 (grey, alpha), 3 or 4 (with alpha)
/// channels.
struct SampleLayout {
  int channels = 3;
  ChannelOrder order = ChannelOrder::rgb;
  Alpha alpha = Alpha::straight;
};

/// `count` pixels -> RGB: round((colour * alpha + background * (255 - alpha)) / 255), which is what
/// Pillow's `background.paste(picture, mask=alpha)` computes.
void to_rgb8(const std::uint8_t* samples, const SampleLayout& layout, const Colour& background,
             std::uint8_t* rgb, std::size_t count);

/// Whether OpenCV is in this build, can be loaded or would be the only one that reads the format, and
/// reads this file as Pillow does.
bool opencv_decodes(const Header& header, std::span<const std::byte> bytes);

/// Throws `Error` with `decode_failed`, `unsupported_format` or `out_of_memory`. The picture is as
/// stored: the Exif orientation is not applied, save for TIFF (`is_upright_when_decoded`).
Picture decode_with_opencv(std::span<const std::byte> bytes, const Header& header,
                           const Colour& background);
/// JPEG in grey or three colours with the library that OpenCV decodes it with, to the same pixels but
/// without loading OpenCV. Nothing where this build lacks it and for what it cannot decode, of which
/// OpenCV says why.
std::optional<Picture> decode_with_libjpeg(std::span<const std::byte> bytes, const Header& header);
bool has_libjpeg();
Picture decode_with_stb(std::span<const std::byte> bytes, const Header& header,
                        const Colour& background);
Picture decode_pnm(std::span<const std::byte> bytes);

/// TIFF's orientation tag is part of the format, not of an Exif block: decoders (OpenCV's and
/// Pillow's) apply it always.
inline bool is_upright_when_decoded(const Header& header) { return header.format == "tiff"; }

/// Empty when this build has no OpenCV or cannot load it, otherwise "OpenCV 4.6.0".
std::string opencv_name();
/// Of a build with OpenCV that cannot load it; otherwise empty.
std::string why_no_opencv();
std::string stb_name();

/// Why the picture cannot be whole, or "" when nothing is amiss. For what the decoders let
/// pass: they fill up a JPEG or a GIF that ends early (stb_image also a BMP) with grey or black.
std::string find_damage(std::span<const std::byte> bytes, const Header& header);

/// Whether the critical chunks of a PNG are as they were written, which stb_image does not look at.
bool has_sound_png_checksums(std::span<const std::byte> bytes);

/// A PNG whose picture is all there but whose end is cut off, with the end put back: Pillow takes
/// such a file, the decoders do not. Nothing when there is nothing to restore.
std::optional<std::vector<std::byte>> restore_png_end(std::span<const std::byte> bytes);

}  // namespace hydrascope::image
