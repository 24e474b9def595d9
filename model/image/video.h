// Frames of a video file, one after the other. Needs OpenCV.
#pragma once

#include "model/image/decode.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

namespace hydrascope::image {

/// The facts of a video's container; 0 for unknown ones.
struct VideoFacts {
  double frames_per_second = 0;  ///< the average
  std::int64_t num_frames = 0;   ///< all frames, whatever the stride; some containers guess
  std::int64_t stride = 1;       ///< every how many frames one is read
  std::int64_t num_read = 0;     ///< frames that will be read, by `num_frames`; 0: not known
  double copy_rate = 0;          ///< see `VideoReader::copy_rate`, if it was asked for
};

struct VideoFrame {
  Picture picture;
  std::int64_t number = 0;             ///< from 0, of all frames of the file
  std::optional<double> seconds = {};  ///< from the first frame, by its time stamp
  bool is_estimated = false;           ///< there is no stamp: the average rate gives it, or nothing
};

/// Yields every `stride`th frame, the first included. Stride 0 means one frame a second of the
/// video's own time: the first one at or after each whole second, at most one in a second. Frames
/// between are skipped without converting them.
class VideoReader {
 public:
  /// Throws Error(unsupported_format) in a build without OpenCV, not_found, decode_failed.
  VideoReader(const std::filesystem::path& file, std::int64_t stride);
  VideoReader(const VideoReader&) = delete;
  VideoReader& operator=(const VideoReader&) = delete;
  ~VideoReader();

  /// The next frame, or nothing at the end. Throws Error(decode_failed) once at the end of a video
  /// with missing frames (a file that was cut, damage in the middle, not one frame) and says how
  /// many there were and should be; unsupported_format, out_of_memory.
  std::optional<VideoFrame> next();
  /// Number of the frames passed so far, which is the next frame's number.
  [[nodiscard]] std::int64_t position() const noexcept;
  [[nodiscard]] VideoFacts facts() const noexcept;
  /// Frames a second of a video of constant rate that shows each frame at its time: the average for
  /// evenly spaced frames, else the rate of the shortest distance (at most 10 times the average).
  /// Reads the container's structure to its end. 0 if nothing is known.
  double copy_rate();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::image
