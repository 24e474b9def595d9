#include "model/image/video_index.h"

#include "model/image/file_bytes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::image {
namespace {

using std::string_view_literals::operator""sv;

bool is_name(std::string_view name) {
  return std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~'; });
}

/// [begin, end) of the file.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// ISO base media (MP4, MOV): boxes of a size, a name and a content.

struct Mp4Track {
  std::uint64_t id = 0;
  bool is_video = false;
  double timescale = 0;
  std::vector<Range> edits;  ///< boxes `elst`
  Range durations;           ///< the box `stts`, like the next two
  Range offsets;             ///< `ctts`
  Range sizes;               ///< `stsz`
};

class Mp4 {
 public:
  explicit Mp4(FileBytes& file) : file_(file) {}

  VideoIndex index() {
    boxes({0, file_.size()}, /*depth=*/0);
    VideoIndex index;
    index.is_broken = is_broken_;
    if (!video_ || !(video_->timescale > 0)) return index;
    add_samples_of_table();
    keep_what_is_shown();
    if (is_odd_) times_.clear();
    for (const double time : times_) index.times.push_back(time / video_->timescale);
    index.num_frames = std::ssize(times_);
    return index;
  }

 private:
  void boxes(Range range, int depth) {
    constexpr int kDeepest = 8;
    if (depth > kDeepest) return;
    while (range.begin + 8 <= range.end) {
      std::uint64_t size = file_.big(range.begin, 4);
      const std::string name = file_.text(range.begin + 4, 4);
      if (!is_name(name)) return;  // padding behind the last one
      std::uint64_t header = 8;
      if (size == 1) {
        size = file_.big(range.begin + 8, 8);
        header = 16;
      }
      if (size == 0) size = range.end - range.begin;
      if (size < header) return;
      const bool is_cut = size > range.end - range.begin;
      if (is_cut && depth == 0) is_broken_ = true;
      const std::uint64_t end = is_cut ? range.end : range.begin + size;
      box(name, {range.begin + header, end}, depth);
      range.begin = end;
    }
  }

  void box(const std::string& name, Range body, int depth) {
    const auto is = [&](std::string_view wanted) { return name == wanted; };
    if (is("moov") || is("mdia") || is("minf") || is("stbl") || is("edts") || is("mvex") ||
        is("moof"))
      return boxes(body, depth + 1);
    const bool is_long = file_.u8(body.begin) == 1;  // the version of boxes that have one
    if (is("mvhd")) {
      movie_scale_ = static_cast<double>(file_.big(body.begin + (is_long ? 20 : 12), 4));
    } else if (is("trak")) {
      track_ = {};
      boxes(body, depth + 1);
      if (track_.is_video && !video_) video_ = track_;
    } else if (is("tkhd")) {
      track_.id = file_.big(body.begin + (is_long ? 20 : 12), 4);
    } else if (is("mdhd")) {
      track_.timescale = static_cast<double>(file_.big(body.begin + (is_long ? 20 : 12), 4));
    } else if (is("hdlr")) {
      track_.is_video |= file_.text(body.begin + 8, 4) == "vide";
    } else if (is("elst")) {
      track_.edits.push_back(body);
    } else if (is("stts")) {
      track_.durations = body;
    } else if (is("ctts")) {
      track_.offsets = body;
    } else if (is("stsz") || is("stz2")) {
      track_.sizes = body;
    } else if (is("trex")) {
      if (!video_ || file_.big(body.begin + 4, 4) == video_->id)
        usual_duration_ = file_.big(body.begin + 12, 4);
    } else if (is("traf")) {
      fragment_is_of_video_ = false;
      boxes(body, depth + 1);
    } else if (is("tfhd")) {
      begin_fragment(body);
    } else if (is("tfdt") && fragment_is_of_video_) {
      decoded_ = static_cast<double>(file_.big(body.begin + 4, is_long ? 8 : 4));
    } else if (is("trun") && fragment_is_of_video_) {
      add_run(body);
    }
  }

  /// No file has more samples than bytes; a few bytes of a table can claim many.
  [[nodiscard]] bool has_room(std::uint64_t more) const {
    return more <= file_.size() - std::min<std::uint64_t>(file_.size(), times_.size());
  }

  void add_samples_of_table() {
    const std::uint64_t count = file_.big(video_->sizes.begin + 8, 4);
    if (!has_room(count)) return void(is_odd_ = true);
    std::vector<double> times;
    double decoded = 0;
    for (std::uint64_t at = video_->durations.begin + 8; at + 8 <= video_->durations.end; at += 8) {
      const auto step = static_cast<double>(file_.big(at + 4, 4));
      const std::uint64_t samples = std::min(file_.big(at, 4), count - times.size());
      for (std::uint64_t i = 0; i < samples; ++i, decoded += step) times.push_back(decoded);
    }
    std::size_t next = 0;
    for (std::uint64_t at = video_->offsets.begin + 8; at + 8 <= video_->offsets.end; at += 8) {
      const auto offset = static_cast<std::int32_t>(file_.big(at + 4, 4));
      const std::uint64_t samples = std::min<std::uint64_t>(file_.big(at, 4), times.size() - next);
      for (std::uint64_t i = 0; i < samples; ++i) times[next++] += offset;
    }
    times_.insert(times_.begin(), times.begin(), times.end());
  }

  void begin_fragment(Range body) {
    if (!video_ || file_.big(body.begin + 4, 4) != video_->id) return;
    fragment_is_of_video_ = true;
    const std::uint64_t flags = file_.big(body.begin + 1, 3);
    std::uint64_t at = body.begin + 8;
    at += (flags & 0x1U) != 0 ? 8 : 0;
    at += (flags & 0x2U) != 0 ? 4 : 0;
    fragment_duration_ = (flags & 0x8U) != 0 ? file_.big(at, 4) : usual_duration_;
  }

  void add_run(Range body) {
    const std::uint64_t flags = file_.big(body.begin + 1, 3);
    const std::uint64_t count = file_.big(body.begin + 4, 4);
    if (!has_room(count)) return void(is_odd_ = true);
    std::uint64_t at = body.begin + 8;
    at += (flags & 0x1U) != 0 ? 4 : 0;
    at += (flags & 0x4U) != 0 ? 4 : 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t duration = fragment_duration_;
      std::int32_t offset = 0;
      for (const std::uint64_t field : {0x100U, 0x200U, 0x400U, 0x800U}) {
        if ((flags & field) == 0) continue;
        if (field == 0x100U) duration = file_.big(at, 4);
        if (field == 0x800U) offset = static_cast<std::int32_t>(file_.big(at, 4));
        at += 4;
      }
      times_.push_back(decoded_ + offset);
      decoded_ += static_cast<double>(duration);
    }
  }

  /// Edits say which part of the track is shown, and when. One part is common (encoders that begin
  /// before zero, cuts without encoding), more are not followed.
  void keep_what_is_shown() {
    std::optional<double> begin;
    double length = 0;
    for (const Range& edits : video_->edits) {
      const bool is_long = file_.u8(edits.begin) == 1;
      const int bytes = is_long ? 8 : 4;
      const std::uint64_t entry = is_long ? 20 : 12;
      for (std::uint64_t at = edits.begin + 8; at + entry <= edits.end; at += entry) {
        const std::uint64_t start = file_.big(at + static_cast<std::uint64_t>(bytes), bytes);
        constexpr std::uint64_t kNothing = ~std::uint64_t{0};  // -1: waits, shows nothing
        if (start == (is_long ? kNothing : kNothing >> 32U)) continue;
        if (begin) is_odd_ = true;
        begin = static_cast<double>(start);
        length = static_cast<double>(file_.big(at, bytes));
      }
    }
    if (!begin) return;
    const double end = length > 0 && movie_scale_ > 0
                           ? *begin + length / movie_scale_ * video_->timescale
                           : INFINITY;
    std::erase_if(times_, [&](double time) { return time < *begin || time >= end; });
  }

  FileBytes& file_;
  double movie_scale_ = 0;
  Mp4Track track_;  ///< the track that is being read
  std::optional<Mp4Track> video_;
  std::vector<double> times_;  ///< in the track's units
  std::uint64_t usual_duration_ = 0;
  std::uint64_t fragment_duration_ = 0;
  bool fragment_is_of_video_ = false;
  double decoded_ = 0;
  bool is_broken_ = false;
  bool is_odd_ = false;
};

// Matroska and WebM: elements of a name, a size and a content.

VideoIndex index_of_matroska(FileBytes& file) {
  constexpr std::uint64_t kSegment = 0x18538067;
  constexpr std::uint64_t kCluster = 0x1F43B675;
  VideoIndex index;
  struct {
    std::uint64_t number = 0;
    bool is_video = false;
    std::string codec;
  } track;
  std::uint64_t video = 0;
  bool is_vp8 = false;
  const auto keep_track = [&] {
    if (video != 0 || !track.is_video) return;
    video = track.number;
    is_vp8 = track.codec == "V_VP8";
  };
  double scale = 1e6;     // nanoseconds
  double duration = 0;    // in units of `scale`
  double of_cluster = 0;  // in units of `scale`
  std::vector<double> times;
  std::uint64_t end_of_segment = file.size();
  std::uint64_t at = 0;
  // All elements in a row: elements with others inside are entered, which needs no size of theirs.
  while (at < end_of_segment) {
    const int name_bytes = std::countl_zero(static_cast<std::uint8_t>(file.u8(at))) + 1;
    const std::uint64_t name = file.big(at, std::min(name_bytes, 4));
    at += static_cast<std::uint64_t>(name_bytes);
    const int size_bytes = std::countl_zero(static_cast<std::uint8_t>(file.u8(at))) + 1;
    if (name_bytes > 4 || size_bytes > 8) {
      index.is_broken = true;
      break;
    }
    const std::uint64_t unknown =
        (std::uint64_t{1} << (7U * static_cast<unsigned>(size_bytes))) - 1;
    const std::uint64_t size = file.big(at, size_bytes) & unknown;
    at += static_cast<std::uint64_t>(size_bytes);
    const bool is_whole = size != unknown && at <= file.size() && size <= file.size() - at;
    if (name == kSegment) {
      if (is_whole) end_of_segment = at + size;
      index.is_broken = index.is_broken || (!is_whole && size != unknown);
      continue;
    }
    const bool is_entered = name == kCluster || name == 0x1549A966 /*Info*/ ||
                            name == 0x1654AE6B /*Tracks*/ || name == 0xA0 /*BlockGroup*/ ||
                            name == 0xAE /*TrackEntry*/;
    if (name == 0xAE) track = {};
    if (is_entered) continue;
    if (!is_whole) {
      index.is_broken = true;
      break;
    }
    const int count = static_cast<int>(std::min<std::uint64_t>(size, 8));
    if (name == 0xD7) track.number = file.big(at, count);
    if (name == 0x83) track.is_video = file.big(at, count) == 1;
    if (name == 0x86) track.codec = file.text(at, std::min<std::uint64_t>(size, 32));
    if (name == 0xD7 || name == 0x83 || name == 0x86) {
      if (track.number != 0 && !track.codec.empty()) keep_track();
    }
    if (name == 0x2AD7B1) scale = static_cast<double>(file.big(at, count));
    if (name == 0x4489)
      duration = size == 4 ? std::bit_cast<float>(static_cast<std::uint32_t>(file.big(at, 4)))
                           : std::bit_cast<double>(file.big(at, 8));
    if (name == 0xE7) of_cluster = static_cast<double>(file.big(at, count));
    if (name == 0xA3 || name == 0xA1) {  // SimpleBlock, Block
      const int number_bytes = std::countl_zero(static_cast<std::uint8_t>(file.u8(at))) + 1;
      const std::uint64_t bits =
          (std::uint64_t{1} << (7U * static_cast<unsigned>(number_bytes))) - 1;
      const std::uint64_t body = at + static_cast<std::uint64_t>(number_bytes);
      const bool is_hidden =
          (file.u8(body + 2) & 0x08U) != 0 || (is_vp8 && (file.u8(body + 3) & 0x10U) == 0);
      if (number_bytes <= 8 && (file.big(at, number_bytes) & bits) == video && !is_hidden)
        times.push_back(of_cluster + static_cast<std::int16_t>(file.big(body, 2)));
    }
    at += size;
  }
  for (const double time : times) index.times.push_back(time * scale * 1e-9);
  if (!index.is_broken) index.num_frames = std::ssize(times);
  if (duration > 0 && std::isfinite(duration)) index.duration = duration * scale * 1e-9;
  return index;
}

// RIFF (AVI): chunks of a name, a size and a content, at even places.

VideoIndex index_of_avi(FileBytes& file) {
  VideoIndex index;
  int streams = 0;
  std::optional<int> video;
  double scale = 0;
  double rate = 0;
  std::uint64_t declared = 0;
  std::uint64_t found = 0;
  std::uint64_t end_of_riff = 0;
  for (std::uint64_t at = 0; at + 8 <= file.size();) {
    const std::string name = file.text(at, 4);
    const std::uint64_t size = file.little(at + 4, 4);
    if (at >= end_of_riff && name != "RIFF") break;  // what others have put behind it
    if (!is_name(name)) {
      index.is_broken = true;
      break;
    }
    const std::uint64_t body = at + 8;
    if (name == "RIFF") {
      // A recorder that crashed leaves zero.
      end_of_riff = size == 0 ? file.size() : body + size;
      index.is_broken = index.is_broken || end_of_riff > file.size();
    }
    if (name == "RIFF" || name == "LIST") {
      at = body + 4;
      continue;
    }
    if (name == "strh") {
      if (!video && file.text(body, 4) == "vids") {
        video = streams;
        scale = static_cast<double>(file.little(body + 20, 4));
        rate = static_cast<double>(file.little(body + 24, 4));
        declared = file.little(body + 32, 4);
      }
      ++streams;
    }
    const bool is_data = name[2] == 'd' && (name[3] == 'c' || name[3] == 'b');
    if (video && is_data && (name[0] - '0') * 10 + (name[1] - '0') == *video) {
      if (size > file.size() - body) break;
      // An empty chunk shows the frame before once more.
      if (size > 0 && rate > 0) index.times.push_back(static_cast<double>(found) * scale / rate);
      ++found;
    }
    at = body + size + size % 2;
  }
  index.num_frames = std::ssize(index.times);
  if (index.is_broken && declared > found)
    index.num_frames += static_cast<std::int64_t>(declared - found);
  return index;
}

// Whether containers without a list of frames have lost their end.

/// The place behind a piece of the file; the end of the file if there is none.
using NextPiece = std::uint64_t (*)(FileBytes& file, std::uint64_t at);

/// Whether a chain of pieces ends with the file.
bool ends_within(FileBytes& file, std::uint64_t at, NextPiece next) {
  while (at < file.size()) {
    const std::uint64_t behind = next(file, at);
    if (behind <= at) return false;  // no such piece: foreign data behind the pieces
    at = behind;
  }
  return at > file.size();
}

std::uint64_t behind_flv_tag(FileBytes& file, std::uint64_t at) {
  const std::uint64_t kind = file.u8(at) & 0x1FU;
  if (kind != 8 && kind != 9 && kind != 18) return at;  // sound, picture, script
  return at + 15 + file.big(at + 1, 3);  // its header and, at its end, its size once more
}
std::uint64_t behind_ivf_frame(FileBytes& file, std::uint64_t at) {
  return at + 12 + file.little(at, 4);
}
std::uint64_t behind_ogg_page(FileBytes& file, std::uint64_t at) {
  if (file.text(at, 4) != "OggS") return at;
  const std::uint64_t segments = file.u8(at + 26);
  std::uint64_t behind = at + 27 + segments;
  for (std::uint64_t i = 0; i < segments; ++i) behind += file.u8(at + 27 + i);
  return behind;
}

/// ASF (WMV) says its file's length, unless the file is a stream's.
bool asf_is_cut(FileBytes& file) {
  constexpr std::string_view kProperties =
      "\xA1\xDC\xAB\x8C\x47\xA9\xCF\x11\x8E\xE4\x00\xC0\x0C\x20\x53\x65"sv;
  const std::uint64_t end = std::min(file.size(), file.little(16, 8));
  for (std::uint64_t at = 30; at + 24 <= end;) {
    const std::uint64_t size = file.little(at + 16, 8);
    if (file.text(at, 16) == kProperties)
      return (file.little(at + 88, 4) & 1U) == 0 && file.little(at + 40, 8) > file.size();
    if (size < 24 || size > end - at) return false;
    at += size;
  }
  return false;
}

/// MPEG-TS is packets of 188 bytes, four more in front of each on cameras and discs.
bool mpeg_ts_is_cut(FileBytes& file) {
  for (const std::uint64_t front : {0U, 4U}) {
    const std::uint64_t packet = 188 + front;
    if (file.u8(front) == 0x47 && file.u8(front + packet) == 0x47 &&
        file.u8(front + 2 * packet) == 0x47)
      return file.size() % packet != 0;
  }
  return false;
}

bool ends_early(FileBytes& file) {
  const std::string begin = file.text(0, 4);
  if (begin == "FLV\1") return ends_within(file, 4 + file.big(5, 4), behind_flv_tag);
  if (begin == "DKIF") return ends_within(file, file.little(6, 2), behind_ivf_frame);
  if (begin == "OggS") return ends_within(file, 0, behind_ogg_page);
  if (begin == "\x30\x26\xB2\x75") return asf_is_cut(file);
  // JPEGs in a row; writers may fill up the last one with zeros.
  if (begin.starts_with("\xFF\xD8\xFF")) {
    std::uint64_t end = file.size();
    while (end > 2 && file.u8(end - 1) == 0) --end;
    return file.big(end - 2, 2) != 0xFFD9;
  }
  return mpeg_ts_is_cut(file);
}

}  // namespace

VideoIndex read_video_index(std::istream& stream) {
  FileBytes file(stream);
  VideoIndex index;
  constexpr std::uint64_t kEbml = 0x1A45DFA3;
  constexpr std::array<std::string_view, 6> kFirstBoxes{"ftyp", "moov", "mdat",
                                                        "wide", "free", "skip"};
  if (file.big(0, 4) == kEbml)
    index = index_of_matroska(file);
  else if (file.text(0, 4) == "RIFF" && file.text(8, 4) == "AVI ")
    index = index_of_avi(file);
  else if (std::ranges::find(kFirstBoxes, file.text(4, 4)) != kFirstBoxes.end())
    index = Mp4(file).index();
  else
    index.is_broken = ends_early(file);
  std::vector<double>& times = index.times;
  if (!std::ranges::all_of(times, [](double time) { return std::isfinite(time); })) times.clear();
  std::ranges::sort(times);
  for (std::size_t i = times.size(); i-- > 0;) times[i] -= times.front();
  return index;
}

}  // namespace hydrascope::image
