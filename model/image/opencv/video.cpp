// The module of OpenCV's reading and writing of video.
#include "model/image/opencv/modules.h"

#include <opencv2/core.hpp>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>
#include <opencv2/videoio/registry.hpp>

namespace hydrascope::opencv {
namespace {

/// Without a choice OpenCV also asks its other backends about the file: they look for cameras, know
/// nothing of the file and say so at length.
int file_backend() {
  return cv::videoio_registry::hasBackend(cv::CAP_FFMPEG) ? cv::CAP_FFMPEG : cv::CAP_ANY;
}

/// As the module of pictures does: no messages, no threads of OpenCV's own.
const bool kIsConfigured = [] {
  cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
  cv::setNumThreads(1);
  return true;
}();

/// The result of `work`, or false with the reason of OpenCV's exception.
template <class Work>
bool guarded(std::string& why, Work work) {
  try {
    return work();
  } catch (const cv::Exception& error) {
    why = error.err;
    return false;
  }
}

class Source final : public VideoSource {
 public:
  bool open(const std::string& file) {
    return capture_.open(file, file_backend()) && capture_.isOpened();
  }
  [[nodiscard]] double frames_per_second() const override { return capture_.get(cv::CAP_PROP_FPS); }
  [[nodiscard]] double num_frames() const override {
    return capture_.get(cv::CAP_PROP_FRAME_COUNT);
  }
  [[nodiscard]] double seconds() const override {
    return capture_.get(cv::CAP_PROP_POS_MSEC) * 1e-3;
  }
  bool grab(std::string& why) override {
    return guarded(why, [&] { return capture_.grab(); });
  }
  bool retrieve(int& width, int& height, bool& is_colour, std::string& why) override {
    if (!guarded(why, [&] { return capture_.retrieve(frame_) && !frame_.empty(); })) return false;
    width = frame_.cols;
    height = frame_.rows;
    is_colour = frame_.type() == CV_8UC3;
    return true;
  }
  void copy_rgb(std::uint8_t* rgb) const override {
    cv::Mat pixels(frame_.rows, frame_.cols, CV_8UC3, rgb);
    cv::cvtColor(frame_, pixels, cv::COLOR_BGR2RGB);
  }

 private:
  cv::VideoCapture capture_;
  cv::Mat frame_;
};

class Sink final : public VideoSink {
 public:
  bool open(const std::string& file, std::array<char, 4> codec, double frames_per_second,
            cv::Size size) {
    size_ = size;
    const auto [a, b, c, d] = codec;
    return writer_.open(file, file_backend(), cv::VideoWriter::fourcc(a, b, c, d),
                        frames_per_second, size) &&
           writer_.isOpened();
  }
  bool write(const std::uint8_t* rgb, int row, std::string& why) override {
    return guarded(why, [&] {
      // A Mat header needs a mutable pointer; cvtColor only reads.
      const cv::Mat frame(size_, CV_8UC3, const_cast<std::uint8_t*>(rgb),
                          static_cast<std::size_t>(row) * 3);
      cv::cvtColor(frame, bgr_, cv::COLOR_RGB2BGR);
      writer_.write(bgr_);
      return true;
    });
  }

 private:
  cv::VideoWriter writer_;
  cv::Size size_;
  cv::Mat bgr_;
};

std::unique_ptr<VideoSource> open_video(const std::string& file, std::string& why) {
  auto source = std::make_unique<Source>();
  if (!guarded(why, [&] { return source->open(file); })) source.reset();
  return source;
}

std::unique_ptr<VideoSink> create_video(const std::string& file, std::array<char, 4> codec,
                                        double frames_per_second, int width, int height) {
  auto sink = std::make_unique<Sink>();
  std::string ignored;  // a codec that does not open
  if (!guarded(ignored, [&] {
        return sink->open(file, codec, frames_per_second, {width, height});
      }))
    sink.reset();
  return sink;
}

constexpr VideoCodecs kCodecs{open_video, create_video};

}  // namespace
}  // namespace hydrascope::opencv

extern "C" const hydrascope::opencv::VideoCodecs* hydrascope_video_codecs() {
  return &hydrascope::opencv::kCodecs;
}
