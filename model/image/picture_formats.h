// The formats of picture files: how files are named, how they begin, what reads them. Walks of folders, `probe`
// and the formats that errors name all follow from this one table.
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
  /// Whether a file's first bytes are this format's (64 of them say so of all formats, save of PNM
  /// with comments). Null where they do not tell.
  bool (*begins)(std::span<const std::byte> bytes) = nullptr;
};

std::span<const PictureFormat> picture_formats();

/// By a file's first bytes; null where no format begins so.
const PictureFormat* format_of_bytes(std::span<const std::byte> bytes);
/// By a name's extension, in whatever case; null where no format has it.
const PictureFormat* format_of_name(const std::filesystem::path& file);

/// Whether the name's extension is one of a video that FFmpeg opens, which OpenCV reads video with.
bool is_named_as_video(const std::filesystem::path& file);

/// "JPEG, PNG, ... and PSD": what this program reads.
std::string readable_formats();

}  // namespace hydrascope::image
