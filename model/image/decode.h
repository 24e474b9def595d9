// Encoded bytes -> 8-bit RGB pixels, row by row. WebP and JPEG 2000 are decoded by OpenCV when it is
// built in (HYDRASCOPE_WITH_OPENCV) and can be loaded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace hydrascope::image {

/// 8-bit RGB pixels, rows top to bottom, interleaved: `rgb[(y * width + x) * 3 + channel]`.
struct Picture {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgb;
};

/// The facts that a file's first bytes declare, read without decoding or allocating pixels.
struct Header {
  std::string format;  ///< "jpeg", "png", "webp", "tiff", "bmp", "gif", "pnm"...; empty if unknown
  std::int64_t width = 0;  ///< as stored, before EXIF orientation; 0 if the format hides it
  std::int64_t height = 0;
  int orientation = 1;  ///< 1..8 of Exif or XMP, as Pillow finds it (1 when there is none)
};

class PictureReader;

struct DecodeOptions {
  bool apply_exif = true;                           ///< rotate/flip as EXIF orientation says
  std::int64_t max_pixels = std::int64_t{1} << 29;  ///< refuse larger pictures before allocating
  /// Refuse larger files before reading them; both decoders' interfaces count bytes in an int.
  std::int64_t max_bytes = std::numeric_limits<int>::max();
  std::array<std::uint8_t, 3> background{255, 255, 255};  ///< colour beneath transparent pixels
  PictureReader* reader =
      nullptr;  ///< reads the files of `read_picture`; null: it reads them itself
};

/// Reads files elsewhere, in other processes.
class PictureReader {
 public:
  PictureReader() = default;
  PictureReader(const PictureReader&) = delete;
  PictureReader& operator=(const PictureReader&) = delete;
  virtual ~PictureReader() = default;
  /// The work of `read_picture` without a reader. Several threads may call it.
  virtual Picture read(const std::filesystem::path& file, const DecodeOptions& options) = 0;
};

/// Reads the declarations in `bytes`. Never throws for hostile input; unknown formats give an empty
/// `format`.
Header probe(std::span<const std::byte> bytes);

/// Decodes any supported file to 8-bit RGB: 16-bit samples keep their high byte (as libpng and
/// Pillow do; PNM scales by its maximum), grey and palette are expanded, alpha is composed over
/// `background` (rounded to nearest), CMYK/YCCK is converted. A file of several pictures gives its
/// first. TIFF's orientation is applied always, as Pillow does. Without OpenCV no WebP and no JPEG
/// 2000 are read. Throws `Error` with `empty` (no bytes), `unsupported_format`, `too_large`,
/// `decode_failed` (truncated or corrupt: a picture that is only partly there is an error),
/// `out_of_memory`.
Picture decode(std::span<const std::byte> bytes, const DecodeOptions& options);

/// `decode` of a file. Adds `not_found`, `unreadable` (permissions, a folder) to the errors.
Picture read_picture(const std::filesystem::path& file, const DecodeOptions& options);

/// Begins to load the decoders of files of these names, if loading takes time, on a thread of its
/// own: a model can load meanwhile.
[[nodiscard]] std::jthread prepare_to_decode(std::span<const std::string> names);

/// The decoder, for `doctor`: "OpenCV 4.6.0" or "stb_image 2.27", the latter with the reason if
/// OpenCV is in this build and cannot be loaded.
std::string decoder_name();
/// Whether JPEGs get Pillow's pixels: libjpeg or OpenCV decodes them.
bool decodes_jpeg_like_pillow();

}  // namespace hydrascope::image
