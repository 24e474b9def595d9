#include "app/visualize/video_output.h"

#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

/// All of `frame` in the middle of a canvas of another size.
viz::Canvas letterboxed(const viz::Canvas& frame, int width, int height) {
  const viz::Canvas fitted = viz::fitted(frame, width, height);
  viz::Canvas canvas = viz::filled(width, height, {});
  viz::paste(canvas, fitted, (width - fitted.width) / 2, (height - fitted.height) / 2);
  return canvas;
}

}  // namespace

VideoOutput::VideoOutput(std::filesystem::path heatmap_file, std::filesystem::path map_file,
                         double frames_per_second)
    : heatmap_file_(std::move(heatmap_file)),
      map_file_(std::move(map_file)),
      frames_per_second_(frames_per_second) {}

void VideoOutput::add(const viz::Canvas& frame, std::span<const InputMap> maps) {
  if (!video_) {
    width_ = frame.width;
    height_ = frame.height;
    video_.emplace(heatmap_file_, width_, height_, frames_per_second_);
    if (!map_file_.empty()) maps_.emplace(map_file_);
  }
  if (frame.width == width_ && frame.height == height_) {
    video_->add(frame);
  } else {
    video_->add(letterboxed(frame, width_, height_));
  }
  if (!maps_) return;
  std::vector<float> values;
  for (const InputMap& map : maps)
    values.insert(values.end(), map.map.values.begin(), map.map.values.end());
  std::vector<std::int64_t> shape{maps.front().map.rows, maps.front().map.columns};
  if (maps.size() > 1) shape.insert(shape.begin(), static_cast<std::int64_t>(maps.size()));
  maps_->append(values, shape);
}

void VideoOutput::close() {
  if (video_) video_->close();
  if (maps_) maps_->close();
}

}  // namespace hydrascope::app
