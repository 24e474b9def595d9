#include "viz/picture/video_writer.h"

#include "kernels/error.h"
#include "kernels/limits.h"
#include "kernels/new_file.h"
#include "model/image/opencv/modules.h"
#include "viz/picture/encode.h"

#ifdef HYDRASCOPE_WITH_OPENCV

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <fstream>
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

}  // namespace

struct VideoWriter::State {
  std::filesystem::path file;
  std::string codec;
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
  const std::string extension = lower_extension(name);
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
  std::string tried;
  for (const Codec& codec : kCodecs) {
    if (codec.extension != extension) continue;
    tried += (tried.empty() ? "" : ", ") + std::string(codec.name);
    // Colour conversion of chroma at half resolution takes even edges only.
    state_->writer =
        opencv::video_codecs().create(state_->pending->path().native(), codec.tag,
                                      frames_per_second, width / 2 * 2, height / 2 * 2);
    if (state_->writer) {
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
  if (lower_extension(state_->file.native()) == ".mp4")
    end << std::string_view(
        "\0\0\0\x12"
        "freehydrascope",
        18);
  if (!end.flush()) throw unwritable("cannot be written", state_->file.native(), errno);
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
