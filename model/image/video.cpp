#include "model/image/video.h"

#include "kernels/error.h"

#ifdef HYDRASCOPE_WITH_OPENCV
#include "model/image/captured_messages.h"
#include "model/image/decoders.h"

#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>
#include <opencv2/videoio/registry.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <system_error>
#endif

namespace hydrascope::image {

#ifdef HYDRASCOPE_WITH_OPENCV

struct VideoReader::State {
  MutedCodecThreads muted;
  cv::VideoCapture capture;
  std::int64_t stride = 1;
  std::int64_t position = 0;  ///< number of the next frame in the file
  std::int64_t frame_index = -1;
  double frames_per_second = 0;  ///< 0 where the container does not say
  std::int64_t frame_count = 0;  ///< likewise

  /// Moves to the next frame that the stride selects; false at the end.
  bool grab() {
    while (capture.grab()) {
      const std::int64_t index = position++;
      if (index % stride == 0) {
        frame_index = index;
        return true;
      }
    }
    return false;
  }
};

namespace {

/// Left to itself OpenCV asks its camera backends about the file, too, which look for devices.
int file_backend() {
  return cv::videoio_registry::hasBackend(cv::CAP_FFMPEG) ? cv::CAP_FFMPEG : cv::CAP_ANY;
}

}  // namespace

VideoReader::VideoReader(const std::filesystem::path& file, std::int64_t stride)
    : state_(std::make_unique<State>()) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) {
    throw Error(ErrorCode::not_found, "no such file", file.string());
  }
  const CapturedMessages messages;
  try {
    state_->capture.open(file.string(), file_backend());
  } catch (const cv::Exception& error) {
    throw Error(ErrorCode::decode_failed, error.err, file.string());
  }
  if (!state_->capture.isOpened()) {
    const std::string reason = messages.text();
    throw Error(ErrorCode::decode_failed,
                "is no video that OpenCV reads" + (reason.empty() ? "" : ": " + reason),
                file.string());
  }
  constexpr double kImplausible = 1000;
  const double declared = state_->capture.get(cv::CAP_PROP_FPS);
  if (declared > 0 && declared < kImplausible) state_->frames_per_second = declared;
  constexpr double kMostFrames = 1e12;  // damaged headers declare any number
  const double frames = state_->capture.get(cv::CAP_PROP_FRAME_COUNT);
  if (frames > 0 && frames < kMostFrames) state_->frame_count = std::llround(frames);
  const std::int64_t one_second = std::llround(state_->frames_per_second);
  state_->stride = std::max<std::int64_t>(stride > 0 ? stride : one_second, 1);
}

std::optional<Picture> VideoReader::next() {
  const CapturedMessages messages;
  try {
    cv::Mat frame;
    if (!state_->grab() || !state_->capture.retrieve(frame) || frame.empty()) return std::nullopt;
    if (frame.type() != CV_8UC3) {
      throw Error(ErrorCode::unsupported_format, "the frames are not 8-bit colour");
    }
    Picture picture = make_picture(frame.cols, frame.rows);
    cv::Mat rgb(frame.rows, frame.cols, CV_8UC3, picture.rgb.data());
    cv::cvtColor(frame, rgb, cv::COLOR_BGR2RGB);
    return picture;
  } catch (const cv::Exception& error) {
    throw Error(ErrorCode::decode_failed, error.err);
  }
}

std::int64_t VideoReader::frame_index() const noexcept { return state_->frame_index; }
double VideoReader::frames_per_second() const noexcept { return state_->frames_per_second; }
std::int64_t VideoReader::frame_count() const noexcept { return state_->frame_count; }

#else

struct VideoReader::State {};

VideoReader::VideoReader(const std::filesystem::path& file, std::int64_t) {
  throw Error(ErrorCode::unsupported_format, "is a video, and this build has no OpenCV to read it",
              file.string(), "build with HYDRASCOPE_OPENCV=ON");
}

std::optional<Picture> VideoReader::next() { return std::nullopt; }
std::int64_t VideoReader::frame_index() const noexcept { return -1; }
double VideoReader::frames_per_second() const noexcept { return 0; }
std::int64_t VideoReader::frame_count() const noexcept { return 0; }

#endif

VideoReader::~VideoReader() = default;

}  // namespace hydrascope::image
