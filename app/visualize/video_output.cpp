#include "app/visualize/video_output.h"

#include "model/image/decoders/captured_messages.h"
#include "viz/figure/figure.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace hydrascope::app {
namespace {

std::string size_text(std::span<const std::int64_t> shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

/// (rows, columns), or (maps, rows, columns).
std::vector<std::int64_t> shape_of(std::span<const InputMap> maps) {
  std::vector<std::int64_t> shape{maps.front().map.rows, maps.front().map.columns};
  if (maps.size() > 1) shape.insert(shape.begin(), static_cast<std::int64_t>(maps.size()));
  return shape;
}

}  // namespace

VideoOutput::VideoOutput(std::filesystem::path heatmap_file, std::filesystem::path map_file,
                         double frames_per_second)
    : heatmap_file_(std::move(heatmap_file)),
      map_file_(std::move(map_file)),
      frames_per_second_(frames_per_second) {}

VideoOutput::~VideoOutput() {
  try {
    close();
  } catch (const Error&) {
    // A caller who must know of a failure has called close().
  }
}

void VideoOutput::add(const viz::Canvas& frame, std::span<const InputMap> maps,
                      std::optional<double> seconds) {
  if (failure_)
    throw Error(*failure_, "the video could not be written at a frame before", heatmap_file_);
  check_shape_of(maps);
  try {
    if (!video_) open(frame);
    write(frame, maps, seconds);
  } catch (const Error& error) {
    failure_ = error.code();
    throw;
  }
}

void VideoOutput::open(const viz::Canvas& frame) {
  const image::CapturedMessages of_codecs;
  size_ = viz::size_of(frame);
  video_.emplace(heatmap_file_, size_.width, size_.height, frames_per_second_);
  if (!map_file_.empty()) maps_.emplace(map_file_);
}

void VideoOutput::check_shape_of(std::span<const InputMap> maps) {
  if (map_file_.empty()) return;
  const std::vector<std::int64_t> shape = shape_of(maps);
  if (map_shape_.empty()) map_shape_ = shape;
  if (shape != map_shape_)
    throw Error(ErrorCode::unsupported_format,
                "maps of " + size_text(shape) + ", those of the frames before have " +
                    size_text(map_shape_) + ", and one array holds one size",
                map_file_, "give `img_size`");
}

void VideoOutput::write(const viz::Canvas& frame, std::span<const InputMap> maps,
                        std::optional<double> seconds) {
  const image::CapturedMessages of_codecs;
  constexpr double kLongest = 60;
  const double behind =
      seconds ? *seconds * frames_per_second_ - static_cast<double>(video_->frames()) : 0;
  const auto repeats = std::llround(std::clamp(behind, 0.0, kLongest * frames_per_second_));
  for (std::int64_t i = 0; i < repeats && video_->frames() > 0; ++i) video_->add(last_);
  if (viz::size_of(frame) == size_) {
    last_ = frame;
  } else {
    last_ = viz::filled(size_.width, size_.height, viz::FigureStyle().background);
    viz::paste(last_, frame, 0, 0);
  }
  video_->add(last_);
  if (!maps_) return;
  std::vector<float> values;
  for (const InputMap& map : maps)
    values.insert(values.end(), map.map.values.begin(), map.map.values.end());
  maps_->append(values, map_shape_);
}

void VideoOutput::close() {
  const image::CapturedMessages of_codecs;
  try {
    if (video_) video_->close();
    if (maps_) maps_->close();
  } catch (const Error&) {
    if (!failure_) throw;
  }
}

}  // namespace hydrascope::app
