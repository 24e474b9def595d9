// Frames of a video file, one after the other. Needs OpenCV; free of LibTorch.
#pragma once

#include "model/image/decode.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

namespace hydrascope::image {

/// Yields every `stride`th frame, the first included; stride 0 means one frame a second of the
/// video's own time. Frames between are skipped without converting them.
class VideoReader {
 public:
  /// Throws Error(unsupported_format) in a build without OpenCV, not_found, decode_failed.
  VideoReader(const std::filesystem::path& file, std::int64_t stride);
  VideoReader(const VideoReader&) = delete;
  VideoReader& operator=(const VideoReader&) = delete;
  ~VideoReader();

  /// The next frame, or nothing at the end, which is also where a truncated file stops making
  /// sense. Throws Error(decode_failed, unsupported_format, out_of_memory).
  std::optional<Picture> next();
  /// Number (from 0) of the frame that `next` gave last.
  [[nodiscard]] std::int64_t frame_index() const noexcept;
  /// 0 where the container does not say; a stride of 0 then gives every frame.
  [[nodiscard]] double frames_per_second() const noexcept;
  /// All of the file, whatever the stride, as its header declares them; 0 where it does not say.
  [[nodiscard]] std::int64_t frame_count() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::image
