#include "model/image/video.h"

#include <algorithm>
#include <cmath>

#include "kernels/error.h"

#ifdef HYDRASCOPE_WITH_OPENCV
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>
#endif

namespace hydrascope::image {

#ifdef HYDRASCOPE_WITH_OPENCV
struct VideoReader::State {
  cv::VideoCapture capture;
  std::int64_t stride = 1;
  std::int64_t position = 0;  // of the next frame in the file
  std::int64_t given = -1;    // of the frame given last
  double fps = 0;
};

VideoReader::VideoReader(const std::filesystem::path& file, std::int64_t stride) : state_(std::make_unique<State>()) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) throw Error(ErrorCode::not_found, "no such file", file.string());
  try {
    if (!state_->capture.open(file.string())) throw Error(ErrorCode::decode_failed, "is no video that OpenCV reads", file.string());
  } catch (const cv::Exception& error) {
    throw Error(ErrorCode::decode_failed, error.what(), file.string());
  }
  state_->fps = state_->capture.get(cv::CAP_PROP_FPS);
  if (!(state_->fps > 0 && state_->fps < 1000)) state_->fps = 0;  // some containers do not say
  const std::int64_t each_second = std::max<std::int64_t>(1, std::llround(state_->fps));
  state_->stride = stride > 0 ? stride : each_second;
}

std::optional<Picture> VideoReader::next() {
  State& state = *state_;
  cv::Mat frame;
  while (true) {
    if (!state.capture.grab()) return std::nullopt;
    const std::int64_t index = state.position++;
    if (index % state.stride != 0) continue;
    if (!state.capture.retrieve(frame) || frame.empty() || frame.type() != CV_8UC3) return std::nullopt;
    state.given = index;
    break;
  }
  Picture picture{frame.cols, frame.rows, {}};
  picture.rgb.resize(frame.total() * 3);
  cv::Mat rgb(frame.rows, frame.cols, CV_8UC3, picture.rgb.data());
  cv::cvtColor(frame, rgb, cv::COLOR_BGR2RGB);
  return picture;
}

std::int64_t VideoReader::frame_index() const noexcept { return state_->given; }
double VideoReader::frames_per_second() const noexcept { return state_->fps; }
#else
struct VideoReader::State {};

VideoReader::VideoReader(const std::filesystem::path& file, std::int64_t) {
  throw Error(ErrorCode::unsupported_format, "is a video, and this build has no OpenCV to read it", file.string(),
              "build with HYDRASCOPE_OPENCV=ON");
}
std::optional<Picture> VideoReader::next() { return std::nullopt; }
std::int64_t VideoReader::frame_index() const noexcept { return -1; }
double VideoReader::frames_per_second() const noexcept { return 0; }
#endif

VideoReader::~VideoReader() = default;

}  // namespace hydrascope::image
