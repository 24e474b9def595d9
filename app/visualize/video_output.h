// The files of a video: its overlay, and its raw maps. Free of LibTorch.
#pragma once

#include "app/npy_file.h"
#include "app/visualize/input_map.h"
#include "viz/canvas.h"
#include "viz/video_writer.h"

#include <filesystem>
#include <optional>
#include <span>

namespace hydrascope::app {

class VideoOutput {
 public:
  /// Opens nothing before the first frame. `map_file` may be empty.
  VideoOutput(std::filesystem::path heatmap_file, std::filesystem::path map_file,
              double frames_per_second);

  [[nodiscard]] const std::filesystem::path& heatmap_file() const noexcept { return heatmap_file_; }
  [[nodiscard]] const std::filesystem::path& map_file() const noexcept { return map_file_; }

  /// The overlay has the first frame's size; others are fitted into it. A row of the raw maps'
  /// array is a frame: (rows, columns), or (maps, rows, columns). Throws what the two writers
  /// throw.
  void add(const viz::Canvas& frame, std::span<const InputMap> maps);
  /// Makes both files complete; nothing comes behind it.
  void close();

 private:
  std::filesystem::path heatmap_file_;
  std::filesystem::path map_file_;
  double frames_per_second_;
  int width_ = 0;
  int height_ = 0;
  std::optional<viz::VideoWriter> video_;
  std::optional<NpyWriter> maps_;
};

}  // namespace hydrascope::app
