#include "viz/video_writer.h"

#include "kernels/error.h"
#include "kernels/new_file.h"

#ifdef HYDRASCOPE_WITH_OPENCV

#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>
#include <opencv2/videoio/registry.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#endif

namespace hydrascope::viz {

#ifdef HYDRASCOPE_WITH_OPENCV

namespace {

struct Codec {
  std::string_view extension;
  std::array<char, 4> tag;
  std::string_view name;
};

/// In the order in which they are tried: the smaller files first.
constexpr std::array kCodecs{Codec{".mp4", {'a', 'v', 'c', '1'}, "H.264"},
                             Codec{".mp4", {'m', 'p', '4', 'v'}, "MPEG-4"},
                             Codec{".mkv", {'H', '2', '6', '4'}, "H.264"},
                             Codec{".mkv", {'F', 'M', 'P', '4'}, "MPEG-4"},
                             Codec{".webm", {'V', 'P', '8', '0'}, "VP8"},
                             Codec{".webm", {'V', 'P', '9', '0'}, "VP9"},
                             Codec{".avi", {'M', 'J', 'P', 'G'}, "Motion JPEG"}};

std::string lower_extension(const std::filesystem::path& file) {
  std::string extension = file.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

/// Of reading, too: the others may be asked in turn, know nothing of the file and say so at length.
int backend() {
  return cv::videoio_registry::hasBackend(cv::CAP_FFMPEG) ? cv::CAP_FFMPEG : cv::CAP_ANY;
}

}  // namespace

struct VideoWriter::State {
  std::filesystem::path file;
  std::string codec;
  int width = 0;
  int height = 0;
  std::optional<PendingFile> pending;
  cv::VideoWriter writer;  // closes its file before that is removed
  cv::Mat bgr;
  std::int64_t frames = 0;
  bool closed = false;
};

VideoWriter::VideoWriter(std::filesystem::path file, int width, int height,
                         double frames_per_second)
    : state_(std::make_unique<State>()) {
  state_->file = std::move(file);
  state_->width = width;
  state_->height = height;
  const std::string& name = state_->file.native();
  const std::string extension = lower_extension(state_->file);
  if (std::ranges::find(kCodecs, extension, &Codec::extension) == kCodecs.end()) {
    throw Error(ErrorCode::unsupported_format,
                "expected a video that ends in .mp4, .mkv, .avi or .webm", name);
  }
  if (width < 2 || height < 2) {
    throw Error(ErrorCode::unsupported_format,
                "frames of " + std::to_string(width) + " x " + std::to_string(height) +
                    ", expected at least 2 x 2",
                name);
  }
  if (!(frames_per_second > 0) || !std::isfinite(frames_per_second)) {
    throw Error(ErrorCode::invalid_argument, "a video needs a positive number of frames a second",
                name);
  }
  state_->pending.emplace(state_->file);
  // Colour conversion of chroma at half resolution takes even edges only.
  const cv::Size even(width / 2 * 2, height / 2 * 2);
  std::string tried;
  for (const Codec& codec : kCodecs) {
    if (codec.extension != extension) continue;
    tried += (tried.empty() ? "" : ", ") + std::string(codec.name);
    const auto [a, b, c, d] = codec.tag;
    try {
      state_->writer.open(state_->pending->path().native(), backend(),
                          cv::VideoWriter::fourcc(a, b, c, d), frames_per_second, even);
    } catch (const cv::Exception&) {
      continue;  // counts as a codec that does not open
    }
    if (state_->writer.isOpened()) {
      state_->codec = codec.name;
      return;
    }
  }
  throw Error(ErrorCode::unsupported_format, "this OpenCV encodes none of " + tried, name,
              "try another extension: .mp4, .mkv, .avi, .webm");
}

VideoWriter::~VideoWriter() {
  try {
    close();
  } catch (const Error&) {
    // A caller who must know of a failure has called close().
  }
}

void VideoWriter::add(const Canvas& frame) {
  if (state_->closed) {
    throw Error(ErrorCode::internal, "a frame for a closed video", state_->file.native());
  }
  if (frame.width != state_->width || frame.height != state_->height) {
    throw Error(ErrorCode::internal,
                "a frame of " + std::to_string(frame.width) + " x " + std::to_string(frame.height) +
                    " for a video of " + std::to_string(state_->width) + " x " +
                    std::to_string(state_->height),
                state_->file.native());
  }
  try {
    // A Mat header needs a mutable pointer; cvtColor only reads.
    auto* pixels = const_cast<std::uint8_t*>(frame.rgb.data());
    const cv::Mat rgb(frame.height, frame.width, CV_8UC3, pixels);
    cv::cvtColor(rgb(cv::Rect(0, 0, frame.width / 2 * 2, frame.height / 2 * 2)), state_->bgr,
                 cv::COLOR_RGB2BGR);
    state_->writer.write(state_->bgr);
  } catch (const cv::Exception& error) {
    throw Error(ErrorCode::failed, "a frame cannot be encoded: " + error.err,
                state_->file.native());
  }
  ++state_->frames;
}

void VideoWriter::close() {
  if (std::exchange(state_->closed, true)) return;
  state_->writer.release();
  if (state_->frames == 0) return;
  // Encoders do not report a full disk: what was written must at least begin to play.
  cv::VideoCapture written;
  try {
    written.open(state_->pending->path().native(), backend());
  } catch (const cv::Exception&) {
    written.release();
  }
  if (!written.isOpened() || !written.grab()) {
    throw Error(ErrorCode::unreadable, "was not written whole: is the disk full?",
                state_->file.native());
  }
  state_->pending->commit();
}

std::int64_t VideoWriter::frames() const noexcept { return state_->frames; }
const std::string& VideoWriter::codec() const noexcept { return state_->codec; }

#else

struct VideoWriter::State {
  std::string codec;
};

VideoWriter::VideoWriter(std::filesystem::path file, int, int, double) {
  throw Error(ErrorCode::unsupported_format, "is a video, and this build has no OpenCV to write it",
              file.string(), "build with HYDRASCOPE_OPENCV=ON");
}

VideoWriter::~VideoWriter() = default;
void VideoWriter::add(const Canvas&) {}
void VideoWriter::close() {}
std::int64_t VideoWriter::frames() const noexcept { return 0; }
const std::string& VideoWriter::codec() const noexcept { return state_->codec; }

#endif

}  // namespace hydrascope::viz
