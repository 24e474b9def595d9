#include "model/image/video.h"

#include "kernels/error.h"
#include "kernels/input_file.h"

#ifdef HYDRASCOPE_WITH_OPENCV
#include "model/image/decoders/captured_messages.h"
#include "model/image/decoders/decoders.h"
#include "model/image/opencv/modules.h"
#include "model/image/video_index.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>
#endif

namespace hydrascope::image {

#ifdef HYDRASCOPE_WITH_OPENCV

namespace {

/// Stamps are rounded to milliseconds in some containers.
constexpr double kRounding = 1e-3;

std::string seconds_text(double seconds) {
  constexpr std::size_t kLongest = 64;
  std::string text(kLongest, '\0');
  const int size = std::snprintf(text.data(), text.size(), "%.3f s", seconds);
  text.resize(static_cast<std::size_t>(std::clamp<int>(size, 0, kLongest)));
  return text;
}

/// "[mov,mp4 @ 0x5581] moov atom not found" without the place in memory, which differs each time.
std::string without_addresses(std::string text) {
  for (std::size_t begin = 0; (begin = text.find('[', begin)) != text.npos;) {
    const std::size_t end = text.find("] ", begin);
    const std::size_t address = text.find(" @ 0x", begin);
    if (end != text.npos && address < end)
      text.erase(begin, end + 2 - begin);
    else
      ++begin;
  }
  return text;
}

}  // namespace

struct VideoReader::State {
  MutedCodecThreads muted;
  std::filesystem::path file;
  std::unique_ptr<opencv::VideoSource> source;
  VideoFacts facts;
  bool by_time = false;
  std::optional<VideoIndex> index_or_unread;
  std::int64_t position = 0;  ///< number of the next frame in the file
  std::int64_t decoded = 0;
  std::int64_t failed = 0;  ///< frames in the middle
  bool has_ended = false;
  // Facts about the last grabbed frame.
  std::optional<double> first_stamp;
  std::optional<double> last_stamp;
  std::optional<double> seconds;
  bool is_estimated = false;
  std::size_t next_in_index = 0;  ///< position of its next time
  double due = 0;                 ///< second from which on the next frame is taken

  const VideoIndex& index() {
    if (!index_or_unread) {
      std::ifstream stream(file, std::ios::binary);
      index_or_unread = read_video_index(stream);
    }
    return *index_or_unread;
  }

  /// Moves to the next frame that can be decoded; false at the end. A single frame that cannot is
  /// passed over; the end is where many fail one after the other.
  bool grab(std::string& why) {
    constexpr std::int64_t kMany = 100;
    constexpr std::int64_t kMost = 100'000;
    for (std::int64_t failures = 0, most = kMany; failures < most; ++failures) {
      if (source->grab(why)) {
        position += failures + 1;
        failed += failures;
        find_time();
        return true;
      }
      if (failures + 1 == kMany) most = std::clamp(index().num_frames - position, kMany, kMost);
    }
    return false;
  }

  /// Takes the frame's own stamp if OpenCV tells it, else the container's list, else the rate.
  void find_time() {
    constexpr double kLongest = 1e9;
    const double stamp = source->seconds();
    // Without a first stamp the other stamps have no origin.
    const bool is_stamp = last_stamp ? stamp > *last_stamp && stamp < kLongest
                                     : !seconds && decoded == 0 && std::abs(stamp) < kLongest;
    is_estimated = false;
    if (is_stamp) {
      last_stamp = stamp;
      // Some streams do not begin at zero. After failed frames the first decoded one is not the
      // stream's first, from which stamps are counted.
      if (!first_stamp) first_stamp = failed > 0 ? std::min(stamp, 0.0) : stamp;
      seconds = stamp - *first_stamp;
      if (failed > 0) find_number();
      return;
    }
    const std::vector<double>& times = index().times;
    if (seconds || decoded > 0) {
      // The times up to the last frame are used up; frames may share one.
      const double last = seconds.value_or(0);
      const auto later = std::ranges::lower_bound(times, last - kRounding / 2) - times.begin();
      next_in_index = std::max(next_in_index, static_cast<std::size_t>(later)) + 1;
    }
    if (next_in_index < times.size()) {
      seconds = times[next_in_index];
      return;
    }
    is_estimated = true;
    if (facts.frames_per_second > 0)
      seconds = decoded > 0 ? seconds.value_or(0) + 1 / facts.frames_per_second : 0;
    else
      seconds.reset();
  }

  /// One failure may hide several frames: all that need the failed one.
  void find_number() {
    const std::vector<double>& times = index().times;
    const auto here = std::ranges::lower_bound(times, *seconds - kRounding / 2) - times.begin();
    if (std::cmp_less(here, times.size())) position = std::max<std::int64_t>(position, here + 1);
  }

  [[nodiscard]] bool is_wanted() const {
    if (!by_time) return (position - 1) % facts.stride == 0;
    return !seconds || *seconds >= due - kRounding / 2;
  }

  /// Whether the file has all frames that it lists, up to its duration, and lacks only an index
  /// behind them.
  [[nodiscard]] bool lost_its_end_alone(const VideoIndex& there) const {
    constexpr double kOneAndAHalf = 1.5;
    return std::cmp_equal(there.times.size(), decoded) && failed == 0 && seconds &&
           facts.frames_per_second > 0 && there.duration > 0 &&
           *seconds + kOneAndAHalf / facts.frames_per_second >= there.duration;
  }

  /// Throws if frames are missing.
  void check_end(const std::string& why) {
    constexpr std::int64_t kFew = 8;  // frames that a decoder may leave out at a stream's beginning
    const VideoIndex& there = index();
    const std::int64_t missing = there.num_frames - decoded;
    bool is_short = decoded == 0;
    if (there.is_broken)
      is_short =
          is_short || (there.num_frames == 0
                           ? !lost_its_end_alone(there)
                           : missing > 0 || std::cmp_less(there.times.size(), there.num_frames));
    else if (there.num_frames == 0)
      is_short = is_short || failed > 0;
    else
      is_short = is_short || (failed > 0 && missing > 0) ||
                 missing > std::max(kFew, there.num_frames / 20);
    if (!is_short) return;
    std::string text = there.is_broken ? "the file is cut or damaged: " : "frames are missing: ";
    const std::string of_all =
        there.num_frames > 0 ? " of " + std::to_string(there.num_frames) : std::string();
    if (decoded == 0) {
      text += "not one frame" + of_all + " can be decoded";
    } else {
      text += std::to_string(decoded) + of_all +
              (of_all.empty() && decoded == 1 ? " frame was" : " frames were") + " read";
      if (seconds) text += ", the last at " + seconds_text(*seconds);
      if (seconds && there.duration > 0) text += " of " + seconds_text(there.duration);
    }
    if (!why.empty()) text += ": " + why;
    throw Error(ErrorCode::decode_failed, text);
  }
};

VideoReader::VideoReader(const std::filesystem::path& file, std::int64_t stride)
    : state_(std::make_unique<State>()) {
  std::error_code ignored;
  InputFile(file).require_open(file);
  if (!std::filesystem::is_regular_file(file, ignored)) {
    throw Error(ErrorCode::unreadable, "a video is read from a file alone", file.string());
  }
  const CapturedMessages messages;
  std::string why;
  state_->file = file;
  state_->source = opencv::video_codecs().open(file.string(), why);
  if (!state_->source) {
    if (why.empty()) why = without_addresses(messages.text());
    const bool is_cut = state_->index().is_broken;
    throw Error(ErrorCode::decode_failed,
                (is_cut ? "the file is cut or damaged, and OpenCV cannot open it"
                        : "is no video that OpenCV reads") +
                    (why.empty() ? "" : ": " + why),
                file.string());
  }
  constexpr double kImplausible = 1000;
  constexpr double kMostFrames = 1e12;
  const double declared = state_->source->frames_per_second();
  VideoFacts& facts = state_->facts;
  if (declared > 0 && declared < kImplausible) facts.frames_per_second = declared;
  facts.stride = std::max<std::int64_t>(stride, 1);
  state_->by_time = stride <= 0;
  const double frames = state_->source->num_frames();
  if (frames > 0 && frames < kMostFrames) facts.num_frames = static_cast<std::int64_t>(frames);
  const double step = state_->by_time ? facts.frames_per_second : static_cast<double>(facts.stride);
  if (step > 0)
    facts.num_read =
        static_cast<std::int64_t>(std::ceil(static_cast<double>(facts.num_frames) / step));
}

std::optional<VideoFrame> VideoReader::next() {
  const CapturedMessages messages;
  State& state = *state_;
  if (state.has_ended) return std::nullopt;
  std::string why;
  while (state.grab(why)) {
    if (!state.is_wanted()) {
      ++state.decoded;
      continue;
    }
    int width = 0;
    int height = 0;
    bool is_colour = false;
    if (!state.source->retrieve(width, height, is_colour, why)) {
      ++state.failed;
      continue;
    }
    ++state.decoded;
    if (!is_colour) {
      state.has_ended = true;
      throw Error(ErrorCode::unsupported_format, "the frames are not 8-bit colour");
    }
    if (state.seconds) state.due = std::floor(*state.seconds + kRounding / 2) + 1;
    VideoFrame frame{make_picture(width, height), state.position - 1, state.seconds,
                     state.is_estimated};
    state.source->copy_rgb(frame.picture.rgb.data());
    return frame;
  }
  state.has_ended = true;
  state.check_end(why);
  return std::nullopt;
}

double VideoReader::copy_rate() {
  constexpr double kEven = 0.5;  // of a frame's time: no other frame lies so near
  constexpr double kMostOfAverage = 10;
  const double declared = state_->facts.frames_per_second;
  const std::vector<double>& times = state_->index().times;
  if (times.size() < 2 || !(times.back() > 0)) return declared;
  bool is_even = declared > 0;
  double shortest = times.back();
  for (std::size_t i = 1; i < times.size(); ++i) {
    is_even = is_even && std::abs(times[i] * declared - static_cast<double>(i)) < kEven;
    const double distance = times[i] - times[i - 1];
    if (distance > kRounding) shortest = std::min(shortest, distance);
  }
  if (is_even) return declared;
  const double average = static_cast<double>(times.size() - 1) / times.back();
  return std::clamp(1 / shortest, average, kMostOfAverage * average);
}

std::int64_t VideoReader::position() const noexcept { return state_->position; }
VideoFacts VideoReader::facts() const noexcept { return state_->facts; }

#else

struct VideoReader::State {};

VideoReader::VideoReader(const std::filesystem::path& file, std::int64_t) {
  throw Error(ErrorCode::unsupported_format, "is a video, and this build has no OpenCV to read it",
              file.string(), "build with HYDRASCOPE_OPENCV=ON");
}

std::optional<VideoFrame> VideoReader::next() { return std::nullopt; }
std::int64_t VideoReader::position() const noexcept { return 0; }
VideoFacts VideoReader::facts() const noexcept { return {}; }
double VideoReader::copy_rate() { return 0; }

#endif

VideoReader::~VideoReader() = default;

}  // namespace hydrascope::image
