// Frames -> an MP4 file. Needs OpenCV, which may print to C's `stderr` when a file is opened or
// closed: model/image's CapturedMessages around both keeps that off the
// terminal.
#pragma once

#include "viz/picture/canvas.h"

#include <cstdint>
#include <filesystem>
#include <memory>

namespace hydrascope::viz {

class VideoWriter {
 public:
  /// `file` ends in .mp4; it is written under a temporary name beside it. Throws
  /// Error(unsupported_format) in a build without OpenCV and where no codec opens, Error(unwritable)
  /// if writing fails.
  VideoWriter(std::filesystem::path file, int width, int height, double frames_per_second);
  VideoWriter(const VideoWriter&) = delete;
  VideoWriter& operator=(const VideoWriter&) = delete;
  ~VideoWriter();  ///< closes: what was added can be played

  /// Adds a frame of the size given; odd edges lose a pixel where the codec cannot do them.
  void add(const Canvas& frame);
  /// Writes the index, checks that what was written begins to play, and gives the file its name;
  /// without a frame nothing is left. Throws Error(unwritable).
  void close();
  [[nodiscard]] std::int64_t frames() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::viz
