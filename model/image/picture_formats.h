// The formats of picture files: their names, beginnings and readers. Walks of folders, `probe` and
// the formats in errors all follow from this one table.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace hydrascope::image {

enum class Decoders {
  none,    ///< known, so that such a file is an error instead of nothing
  opencv,  ///< OpenCV alone: not in a build without it
  any      ///< in every build
};

struct PictureFormat {
  std::string_view name;        ///< `Header::format`
  std::string_view title;       ///< for people
  std::string_view extensions;  ///< in small letters, a blank between two: ".jpg .jpeg"
  Decoders decoders = Decoders::none;
  /// Whether a file's first bytes are this format's (64 bytes suffice for all formats, save for PNM
  /// with comments). Null if they do not tell.
  bool (*begins)(std::span<const std::byte> bytes) = nullptr;
};

extern const std::span<const PictureFormat> picture_formats;

/// The format of a file's first bytes; null if no format begins so.
const PictureFormat* format_of_bytes(std::span<const std::byte> bytes);
/// The format of a name's extension, in either case; null if no format has it.
const PictureFormat* format_of_name(const std::filesystem::path& file);

/// Whether the name's extension is a video's that FFmpeg, OpenCV's reader of video, opens.
bool is_named_as_video(const std::filesystem::path& file);

/// "JPEG, PNG, ... and PSD": the formats that this program reads.
std::string readable_formats();

}  // namespace hydrascope::image
