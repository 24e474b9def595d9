#include "model/image/video.h"

#include "kernels/error.h"

#ifdef HYDRASCOPE_WITH_OPENCV
#include "model/image/decoders/captured_messages.h"
#include "model/image/decoders/decoders.h"
#include "model/image/opencv/modules.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <system_error>
#endif

namespace hydrascope::image {

#ifdef HYDRASCOPE_WITH_OPENCV

struct VideoReader::State {
  MutedCodecThreads muted;
  std::unique_ptr<opencv::VideoSource> source;
  VideoFacts facts;
  std::int64_t position = 0;  ///< number of the next frame in the file
  std::int64_t frame_index = -1;

  /// Moves to the next frame that the stride selects; false at the end.
  bool grab(std::string& why) {
    while (source->grab(why)) {
      const std::int64_t index = position++;
      if (index % facts.stride == 0) {
        frame_index = index;
        return true;
      }
    }
    return false;
  }
};

VideoReader::VideoReader(const std::filesystem::path& file, std::int64_t stride)
    : state_(std::make_unique<State>()) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) {
    throw Error(ErrorCode::not_found, "no such file", file.string());
  }
  const CapturedMessages messages;
  std::string why;
  state_->source = opencv::video_codecs().open(file.string(), why);
  if (!state_->source) {
    if (why.empty()) why = messages.text();
    throw Error(ErrorCode::decode_failed,
                "is no video that OpenCV reads" + (why.empty() ? "" : ": " + why), file.string());
  }
  constexpr double kImplausible = 1000;
  constexpr double kMostFrames = 1e12;
  const double declared = state_->source->frames_per_second();
  VideoFacts& facts = state_->facts;
  if (declared > 0 && declared < kImplausible) facts.frames_per_second = declared;
  const std::int64_t one_second = std::llround(facts.frames_per_second);
  facts.stride = std::max<std::int64_t>(stride > 0 ? stride : one_second, 1);
  const double frames = state_->source->num_frames();
  if (frames > 0 && frames < kMostFrames) facts.num_frames = static_cast<std::int64_t>(frames);
}

std::optional<Picture> VideoReader::next() {
  const CapturedMessages messages;
  std::string why;
  int width = 0;
  int height = 0;
  bool is_colour = false;
  if (!state_->grab(why) || !state_->source->retrieve(width, height, is_colour, why)) {
    if (!why.empty()) throw Error(ErrorCode::decode_failed, why);
    return std::nullopt;
  }
  if (!is_colour) throw Error(ErrorCode::unsupported_format, "the frames are not 8-bit colour");
  Picture picture = make_picture(width, height);
  state_->source->copy_rgb(picture.rgb.data());
  return picture;
}

std::int64_t VideoReader::frame_index() const noexcept { return state_->frame_index; }
VideoFacts VideoReader::facts() const noexcept { return state_->facts; }

#else

struct VideoReader::State {};

VideoReader::VideoReader(const std::filesystem::path& file, std::int64_t) {
  throw Error(ErrorCode::unsupported_format, "is a video, and this build has no OpenCV to read it",
              file.string(), "build with HYDRASCOPE_OPENCV=ON");
}

std::optional<Picture> VideoReader::next() { return std::nullopt; }
std::int64_t VideoReader::frame_index() const noexcept { return -1; }
VideoFacts VideoReader::facts() const noexcept { return {}; }

#endif

VideoReader::~VideoReader() = default;

}  // namespace hydrascope::image
