// The files of a video: its overlay, and its raw maps.
#pragma once

#include "app/maps/input_map.h"
#include "app/results/npy_file.h"
#include "viz/picture/canvas.h"
#include "viz/picture/video_writer.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace hydrascope::app {

class VideoOutput {
 public:
  /// Opens nothing before the first frame. `map_file` may be empty.
  VideoOutput(std::filesystem::path heatmap_file, std::filesystem::path map_file,
              double frames_per_second);
  VideoOutput(const VideoOutput&) = delete;
  VideoOutput& operator=(const VideoOutput&) = delete;
  /// Closes as well as it can; only `close` reports what went wrong.
  ~VideoOutput();

  [[nodiscard]] const std::filesystem::path& heatmap_file() const noexcept { return heatmap_file_; }
  [[nodiscard]] const std::filesystem::path& map_file() const noexcept { return map_file_; }

  /// The first frame's size is the video's: others are cut, or filled up with the background of
  /// figures, never scaled. A row of the raw maps' array is a frame: (rows, columns), or (maps,
  /// rows, columns).
  ///
  /// Throws Error(unsupported_format) for maps of another shape than the first frame's, which
  /// leaves both files as they were, and what the two writers throw: then the video has failed, and
  /// every frame after that is told so.
  ///
  /// `seconds`: when it is to be shown. The frame before is repeated until then (for a minute at
  /// most), none is left out, and one that comes too early is late.
  void add(const viz::Canvas& frame, std::span<const InputMap> maps,
           std::optional<double> seconds = {});
  /// Makes both files complete; nothing comes after it. Throws what the two writers throw, unless
  /// `add` did already.
  void close();

 private:
  void open(const viz::Canvas& frame);
  void check_shape_of(std::span<const InputMap> maps);
  void write(const viz::Canvas& frame, std::span<const InputMap> maps,
             std::optional<double> seconds);

  std::filesystem::path heatmap_file_;
  std::filesystem::path map_file_;
  double frames_per_second_;
  viz::Size size_;
  std::vector<std::int64_t> map_shape_;  ///< of a frame, once one came
  std::optional<viz::VideoWriter> video_;
  viz::Canvas last_;  ///< frame that was written
  std::optional<NpyWriter> maps_;
  std::optional<ErrorCode> failure_;
};

}  // namespace hydrascope::app
