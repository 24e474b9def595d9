#include "viz/picture/video_writer.h"

#include "kernels/error.h"
#include "kernels/limits.h"
#include "kernels/new_file.h"
#include "model/image/opencv/modules.h"

#ifdef HYDRASCOPE_WITH_OPENCV

#include <array>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#endif

namespace hydrascope::viz {

#ifdef HYDRASCOPE_WITH_OPENCV

namespace {

/// H.264, which makes the smaller files, then MPEG-4.
constexpr std::array kCodecs{std::array{'a', 'v', 'c', '1'}, std::array{'m', 'p', '4', 'v'}};

}  // namespace

struct VideoWriter::State {
  std::filesystem::path file;
  int width = 0;
  int height = 0;
  std::optional<PendingFile> pending;
  std::unique_ptr<opencv::VideoSink> writer;  // ends its file before that is removed
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
  for (const std::array<char, 4>& tag : kCodecs) {
    // Colour conversion of chroma at half resolution takes even edges only.
    state_->writer = opencv::video_codecs().create(
        state_->pending->path().native(), tag, frames_per_second, width / 2 * 2, height / 2 * 2);
    if (state_->writer) return;
  }
  throw Error(ErrorCode::unsupported_format, "this OpenCV encodes neither H.264 nor MPEG-4", name);
}

VideoWriter::~VideoWriter() {
  try {
    close();
  } catch (const Error&) {
    // A caller that must know of a failure has called close().
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
  std::string why;
  if (!state_->writer->write(frame.rgb.data(), frame.width, why))
    throw Error(ErrorCode::failed, "a frame cannot be encoded: " + why, state_->file.native());
  ++state_->frames;
}

void VideoWriter::close() {
  if (std::exchange(state_->closed, true)) return;
  state_->writer.reset();
  if (state_->frames == 0) return;
  // Encoders do not report a full disk: what was written must at least begin to play.
  std::string ignored;
  const auto written = opencv::video_codecs().open(state_->pending->path().native(), ignored);
  std::ofstream end(state_->pending->path(), std::ios::binary | std::ios::app);
  if (!written || !written->grab(ignored)) {
    // The system says why to a further write.
    end << std::string(1 << 20, '\0') << std::flush;
    if (!end) throw unwritable("was not written whole", state_->file.native(), errno);
    throw Error(ErrorCode::unwritable, "was not written whole", state_->file.native());
  }
  // The origin, as of a picture (`encode`), in a box of MP4 that players pass over.
  end << std::string_view(
      "\0\0\0\x12"
      "freehydrascope",
      18);
  if (!end.flush()) throw unwritable("cannot be written", state_->file.native(), errno);
  state_->pending->commit();
}

std::int64_t VideoWriter::frames() const noexcept { return state_->frames; }

#else

struct VideoWriter::State {};

VideoWriter::VideoWriter(std::filesystem::path file, int, int, double) {
  throw Error(ErrorCode::unsupported_format, "is a video, and this build has no OpenCV to write it",
              file.string(), "build with HYDRASCOPE_OPENCV=ON");
}

VideoWriter::~VideoWriter() = default;
void VideoWriter::add(const Canvas&) {}
void VideoWriter::close() {}
std::int64_t VideoWriter::frames() const noexcept { return 0; }

#endif

}  // namespace hydrascope::viz
