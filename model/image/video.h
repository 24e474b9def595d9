// Frames of a video file, one after the other. Needs OpenCV.
#pragma once

#include "model/image/decode.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

namespace hydrascope::image {

/// What a video's container says; 0 where it does not.
struct VideoFacts {
  double frames_per_second = 0;  ///< a stride of 0 gives every frame where it is unknown
  std::int64_t num_frames = 0;   ///< of all, whatever the stride; some containers guess
  std::int64_t stride = 1;       ///< of the frames that are read
};

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
  [[nodiscard]] VideoFacts facts() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::image
