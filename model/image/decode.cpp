#include "model/image/decode.h"

#include "kernels/error.h"
#include "kernels/input_file.h"
#include "model/image/decoders/decoders.h"
#include "model/image/needed_pixels.h"
#include "model/image/picture_formats.h"
#include "model/image/upright.h"

#include <algorithm>
#include <limits>
#include <new>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace hydrascope::image {
namespace {

std::string size_text(std::int64_t width, std::int64_t height) {
  return std::to_string(height) + "x" + std::to_string(width) + " pixels (HxW)";
}

[[noreturn]] void refuse(const PictureFormat& format) {
  throw Error(ErrorCode::unsupported_format,
              std::string(format.title) + " pictures are not supported", {},
              "convert it to JPEG or PNG first");
}

/// Refuses by the name alone: most camera raw files are TIFFs whose first picture is a small
/// preview, and some formats have no beginning of their own.
void refuse_by_name(const std::filesystem::path& file, std::span<const std::byte> bytes) {
  const PictureFormat* named = format_of_name(file);
  if (named == nullptr || named->decoders != Decoders::none || bytes.empty()) return;
  const PictureFormat* format = format_of_bytes(bytes);
  if (format == nullptr || (named->name == "raw" && format->name == "tiff")) refuse(*named);
}

/// Refuses undecodable files before a decoder sees them.
void check_header(const Header& header, const DecodeOptions& options) {
  if (header.format.empty()) {
    throw Error(ErrorCode::unsupported_format, "the content is no picture in a known format", {},
                readable_formats() + " are read; the name of the file plays no part");
  }
  const auto format = std::ranges::find(picture_formats, header.format, &PictureFormat::name);
  if (format->decoders == Decoders::none) refuse(*format);
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

Picture decode_as_stored(const Encoded& encoded, const Header& header, const DecodeOptions& options,
                         const NeededPixels& needed) {
  const Colour& background = options.background;
  if (header.format == "bmp") return decode_bmp(encoded, header, background);
  if (header.format == "gif") return decode_gif(encoded, header, background);
  if (header.format == "png") return decode_png(encoded, background);
  if (header.format == "pnm") return decode_pnm(encoded);
  if (header.format == "psd") return decode_psd(encoded, header, background);
  if (header.format == "tiff") return decode_tiff(encoded, background);
  if (header.format == "jpeg" && has_libjpeg) {
    // All of a picture that is turned afterwards is needed.
    const bool is_whole = !needed || (options.apply_exif && header.orientation != 1);
    return decode_with_libjpeg(encoded, header,
                               is_whole ? PixelBox{0, 0, header.height, header.width}
                                        : needed(header.height, header.width));
  }
  if (std::cmp_greater(encoded.bytes.size(), std::numeric_limits<int>::max())) {
    throw Error(ErrorCode::too_large, "the file is larger than 2 GiB");
  }
  if (header.format != "jpeg") return decode_with_opencv(encoded, header, background);
  if (const std::string damage = find_jpeg_damage(encoded.bytes); !damage.empty()) {
    throw Error(ErrorCode::decode_failed, damage);
  }
  return opencv_decodes(header) ? decode_with_opencv(encoded, header, background)
                                : decode_with_stb(encoded);
}

Picture decode(const Encoded& encoded, const DecodeOptions& options, const NeededPixels& needed) {
  if (encoded.bytes.empty()) throw Error(ErrorCode::empty, "the file is empty");
  const Header header = probe(encoded.bytes);
  check_header(header, options);
  Picture picture = decode_as_stored(encoded, header, options, needed);
  if (picture.width != header.width || picture.height != header.height) {
    throw Error(ErrorCode::decode_failed,
                "the header declares " + size_text(header.width, header.height) +
                    ", decoded were " + size_text(picture.width, picture.height));
  }
  // TIFF's orientation is part of the format: it is applied always, as Pillow does.
  if (options.apply_exif || header.format == "tiff") make_upright(picture, header.orientation);
  return picture;
}

/// Pipes have no size, so the stream is read piece by piece. A file that its size or first piece
/// makes unreadable is not read any further.
std::vector<std::byte> read_all(std::istream& stream, const std::filesystem::path& file,
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
  return bytes;
}

}  // namespace

void forget_pages(const void* begin, std::size_t size) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (address + page - 1) / page * page;
  const std::uintptr_t end = (address + size) / page * page;
  if (first < end) ::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

void Encoded::forget(std::size_t& begin, std::size_t end) const {
  constexpr std::size_t kWorthIt = std::size_t{1} << 22;
  end = std::min(end, bytes.size());
  if (!is_own_ || end < begin + kWorthIt) return;
  forget_pages(bytes.data() + begin, end - begin);
  begin = end;
}

Picture reserve_picture(std::int64_t width, std::int64_t height) {
  Picture picture;
  picture.width = static_cast<int>(width);
  picture.height = static_cast<int>(height);
  try {
    picture.rgb.reserve(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory, "no memory for a picture of " + size_text(width, height));
  }
  return picture;
}

std::uint8_t* add_row(Picture& picture) {
  const std::size_t at = picture.rgb.size();
  picture.rgb.resize(at + static_cast<std::size_t>(picture.width) * 3);
  return picture.rgb.data() + at;
}

Picture make_picture(std::int64_t width, std::int64_t height) {
  Picture picture = reserve_picture(width, height);
  picture.rgb.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
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
  return decode(bytes, options, {});
}

Picture decode(std::span<const std::byte> bytes, const DecodeOptions& options,
               const NeededPixels& needed) {
  return decode(Encoded(bytes), options, needed);
}

Picture read_picture(const std::filesystem::path& file, const DecodeOptions& options) {
  return read_picture(file, options, {});
}

Picture read_picture(const std::filesystem::path& file, const DecodeOptions& options,
                     const NeededPixels& needed) {
  if (options.reader != nullptr) return options.reader->read(file, options);
  InputFile stream(file);
  stream.require_open(file);
  try {
    const std::vector<std::byte> bytes = read_all(stream, file, options);
    refuse_by_name(file, bytes);
    return decode(Encoded(bytes, /*is_own=*/true), options, needed);
  } catch (const Error& error) {
    throw Error(error.code(), error.what(), file.string(), error.hint(), error.where());
  }
}

std::string decoder_name() {
  const std::string opencv = opencv_name();
  const std::string why_not = why_no_opencv();
  return opencv.empty() ? stb_name() + (why_not.empty() ? "" : " (" + why_not + ")") : opencv;
}

bool decodes_jpeg_like_pillow() { return has_libjpeg || !opencv_name().empty(); }

}  // namespace hydrascope::image
