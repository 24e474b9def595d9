#include "model/image/decode.h"

#include "kernels/error.h"
#include "model/image/decoders/decoders.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace hydrascope::image {
namespace {

std::string size_text(std::int64_t width, std::int64_t height) {
  return std::to_string(height) + "x" + std::to_string(width) + " pixels (HxW)";
}

/// Refuses what cannot be decoded before a decoder sees it.
void check_header(const Header& header, const DecodeOptions& options) {
  if (header.format.empty()) {
    throw Error(ErrorCode::unsupported_format, "the content is no picture in a known format", {},
                "JPEG, PNG, WebP, TIFF, BMP, GIF, PNM, JPEG 2000 and PSD are read; the name of the "
                "file plays no part");
  }
  constexpr std::array<std::string_view, 4> kKnownByNameOnly{"avif", "heif", "jpegxl", "bigtiff"};
  if (std::find(kKnownByNameOnly.begin(), kKnownByNameOnly.end(), header.format) !=
      kKnownByNameOnly.end()) {
    throw Error(ErrorCode::unsupported_format, header.format + " pictures are not supported", {},
                "convert it to JPEG or PNG first");
  }
  if (header.width <= 0 || header.height <= 0) {
    throw Error(ErrorCode::decode_failed, "the " + header.format +
                                              " header is damaged or truncated: it declares " +
                                              size_text(header.width, header.height));
  }
  // Sizes are below 2^32 each; dividing keeps the product from overflowing.
  if (header.width > options.max_pixels / header.height ||
      std::max(header.width, header.height) > std::numeric_limits<int>::max()) {
    throw Error(ErrorCode::too_large, size_text(header.width, header.height) +
                                          ", above the limit of " +
                                          std::to_string(options.max_pixels) + " pixels");
  }
}

Picture decode_as_stored(std::span<const std::byte> bytes, const Header& header,
                         const Colour& background) {
  if (header.format == "pnm") return decode_pnm(bytes);
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw Error(ErrorCode::too_large, "the file is larger than 2 GiB");
  }
  if (header.format == "jpeg") {
    if (std::optional<Picture> picture = decode_with_libjpeg(bytes, header))
      return *std::move(picture);
  }
  if (opencv_decodes(header, bytes)) return decode_with_opencv(bytes, header, background);
  return decode_with_stb(bytes, header, background);
}

/// Rotates and mirrors `picture` so that it is upright. Every orientation is a walk over the stored
/// pixels from one of the four corners, along rows or columns (Exif 2.32, 4.6.4 A, tag 0x0112).
Picture make_upright(Picture picture, int orientation) {
  if (orientation < 2 || orientation > 8) return picture;
  const bool swaps_axes = orientation >= 5;
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const std::ptrdiff_t row = std::ptrdiff_t{3} * picture.width;
  const std::ptrdiff_t step_x = from_right ? -3 : 3;
  const std::ptrdiff_t step_y = from_bottom ? -row : row;

  Picture upright = make_picture(swaps_axes ? picture.height : picture.width,
                                 swaps_axes ? picture.width : picture.height);
  const std::ptrdiff_t along = swaps_axes ? step_y : step_x;
  const std::ptrdiff_t across = swaps_axes ? step_x : step_y;
  const std::ptrdiff_t corner =
      (from_right ? row - 3 : 0) + (from_bottom ? row * (picture.height - 1) : 0);
  std::uint8_t* out = upright.rgb.data();
  for (std::ptrdiff_t y = 0; y < upright.height; ++y) {
    for (std::ptrdiff_t x = 0; x < upright.width; ++x, out += 3) {
      std::copy_n(picture.rgb.data() + corner + y * across + x * along, 3, out);
    }
  }
  return upright;
}

/// Pipes have no size, so the stream is read piece by piece. What is refused by its size, or by the
/// first piece, is not read any further.
std::vector<std::byte> read_all(std::ifstream& stream, const std::filesystem::path& file,
                                const DecodeOptions& options) {
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  const auto limit = static_cast<std::uintmax_t>(options.max_bytes);
  const auto check_size = [&](std::uintmax_t size) {
    if (size > limit)
      throw Error(ErrorCode::too_large,
                  "the file has more than " + std::to_string(limit) + " bytes");
  };
  std::vector<std::byte> bytes;
  std::error_code has_no_size;
  const std::uintmax_t size = std::filesystem::file_size(file, has_no_size);
  if (!has_no_size) check_size(size);
  try {
    if (!has_no_size) bytes.reserve(size + kPiece);
    while (stream) {
      const std::size_t have = bytes.size();
      check_size(have);
      if (have == kPiece) {
        const Header header = probe(bytes);
        if (header.format.empty() || (header.width > 0 && header.height > 0))
          check_header(header, options);
      }
      bytes.resize(have + kPiece);
      stream.read(reinterpret_cast<char*>(bytes.data() + have), kPiece);
      bytes.resize(have + static_cast<std::size_t>(stream.gcount()));
    }
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory, "no memory to read the file", file.string());
  }
  if (stream.bad()) throw Error(ErrorCode::unreadable, "reading failed", file.string());
  return bytes;
}

}  // namespace

Picture make_picture(std::int64_t width, std::int64_t height) {
  Picture picture;
  picture.width = static_cast<int>(width);
  picture.height = static_cast<int>(height);
  try {
    picture.rgb.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory, "no memory for a picture of " + size_text(width, height));
  }
  return picture;
}

void to_rgb8(const std::uint8_t* samples, const SampleLayout& layout, const Colour& background,
             std::uint8_t* rgb, std::size_t count) {
  const int channels = layout.channels;
  const bool is_grey = channels <= 2;
  const bool has_alpha = channels == 2 || channels == 4;
  const int red = is_grey || layout.order == ChannelOrder::rgb ? 0 : 2;
  const int green = is_grey ? 0 : 1;
  const int blue = is_grey ? 0 : 2 - red;
  for (std::size_t i = 0; i < count; ++i, samples += channels, rgb += 3) {
    const Colour colour{samples[red], samples[green], samples[blue]};
    if (!has_alpha) {
      std::copy(colour.begin(), colour.end(), rgb);
      continue;
    }
    const std::uint32_t alpha = samples[channels - 1];
    const std::uint32_t weight = layout.alpha == Alpha::straight ? alpha : 255;
    for (std::size_t c = 0; c < 3; ++c) {
      const std::uint32_t sum = colour[c] * weight + background[c] * (255 - alpha);
      rgb[c] = static_cast<std::uint8_t>(std::min<std::uint32_t>((sum + 127) / 255, 255));
    }
  }
}

Picture decode(std::span<const std::byte> bytes, const DecodeOptions& options) {
  if (bytes.empty()) throw Error(ErrorCode::empty, "the file is empty");
  const Header header = probe(bytes);
  check_header(header, options);
  if (const std::string damage = find_damage(bytes, header); !damage.empty()) {
    throw Error(ErrorCode::decode_failed, damage);
  }
  std::optional<std::vector<std::byte>> restored;
  if (header.format == "png") restored = restore_png_end(bytes);
  Picture picture = decode_as_stored(restored ? std::span<const std::byte>(*restored) : bytes,
                                     header, options.background);
  const bool is_upright = is_upright_when_decoded(header);
  const bool is_turned = is_upright && header.orientation >= 5;
  if (picture.width != (is_turned ? header.height : header.width) ||
      picture.height != (is_turned ? header.width : header.height)) {
    throw Error(ErrorCode::decode_failed,
                "the header declares " + size_text(header.width, header.height) +
                    ", decoded were " + size_text(picture.width, picture.height));
  }
  if (!options.apply_exif || is_upright) return picture;
  return make_upright(std::move(picture), header.orientation);
}

Picture read_picture(const std::filesystem::path& file, const DecodeOptions& options) {
  if (options.reader != nullptr) return options.reader->read(file, options);
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(file, ignored);
  if (!std::filesystem::exists(status)) {
    const bool hidden = status.type() == std::filesystem::file_type::unknown;
    throw Error(hidden ? ErrorCode::unreadable : ErrorCode::not_found,
                hidden ? "cannot be looked at: permission denied" : "no such file", file.string());
  }
  if (std::filesystem::is_directory(status)) {
    throw Error(ErrorCode::unreadable, "is a folder", file.string());
  }
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    throw Error(ErrorCode::unreadable,
                std::string("cannot be opened: ") + std::strerror(errno != 0 ? errno : EIO),
                file.string());
  }
  try {
    return decode(read_all(stream, file, options), options);
  } catch (const Error& error) {
    throw Error(error.code(), error.what(), file.string(), error.hint(), error.where());
  }
}

std::string decoder_name() {
  const std::string opencv = opencv_name();
  const std::string why_not = why_no_opencv();
  return opencv.empty() ? stb_name() + (why_not.empty() ? "" : " (" + why_not + ")") : opencv;
}

bool decodes_jpeg_like_pillow() { return has_libjpeg() || !opencv_name().empty(); }

}  // namespace hydrascope::image
