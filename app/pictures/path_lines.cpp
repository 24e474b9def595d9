#include "app/pictures/path_lines.h"

#include "model/image/picture_formats.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

namespace hydrascope::app {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF"sv;
constexpr std::size_t kMaxLength = 4096;  // PATH_MAX of Linux
constexpr std::size_t kTelling = 64;      // bytes that tell every format

/// How what is no list may begin.
constexpr std::array kBeginnings{
    "\0"sv,       "\xFF"sv,   "\x89PNG"sv, "\x1A\x45"sv, "\x1F\x8B"sv,
    "\xFE\xFF"sv, "RIFF"sv,   "BM"sv,      "GIF8"sv,     "II*\0"sv,
    "MM\0*"sv,    "8BPS\0"sv, "P1"sv,      "P2"sv,       "P3"sv,
    "P4"sv,       "P5"sv,     "P6"sv,      "P7\n"sv,     "<svg"sv,
    "%PDF-"sv,    "PK\3\4"sv, "OggS\0"sv,  "FLV\1"sv,    "\x30\x26\xB2\x75"sv};

/// Whether more bytes would tell more: what is there begins so, and no long line has ended.
bool is_undecided(std::string_view head) {
  constexpr std::size_t kLongestHeaderLine = 18;
  const std::size_t line = head.find('\n');
  if (head.size() >= kTelling || (line != head.npos && line > kLongestHeaderLine)) return false;
  return std::ranges::any_of(kBeginnings, [&](std::string_view beginning) {
    const std::size_t count = std::min(beginning.size(), head.size());
    return head.substr(0, count) == beginning.substr(0, count);
  });
}

bool is_video(std::string_view head) {
  const bool is_avi = head.starts_with("RIFF"sv) && head.substr(8).starts_with("AVI "sv);
  return is_avi || (head.size() > 8 && head.substr(4).starts_with("ftyp"sv)) ||
         head.starts_with("\x1A\x45\xDF\xA3"sv) || head.starts_with("\0\0\1\xBA"sv) ||
         head.starts_with("\0\0\1\xB3"sv) || head.starts_with("OggS\0"sv) ||
         head.starts_with("FLV\1"sv) || head.starts_with("\x30\x26\xB2\x75"sv);
}

/// Bytes of a program, not of names.
bool holds_controls(std::string_view head) {
  return std::ranges::any_of(head.substr(0, kTelling), [](unsigned char byte) {
    return byte < 0x20 && byte != '\0' && byte != '\t' && byte != '\n' && byte != '\r';
  });
}

}  // namespace

PathLines::PathLines(std::string given, std::istream& stream)
    : given_(std::move(given)), stream_(stream) {}

PathLines::PathLines(std::string given, std::unique_ptr<std::istream> file,
                     std::filesystem::path folder)
    : given_(std::move(given)),
      file_(std::move(file)),
      stream_(*file_),
      folder_(std::move(folder)) {}

std::optional<char> PathLines::take() {
  if (taken_ < head_.size()) return head_[taken_++];
  using Traits = std::istream::traits_type;
  const Traits::int_type byte = stream_.rdbuf()->sbumpc();
  if (Traits::eq_int_type(byte, Traits::eof())) return std::nullopt;
  return Traits::to_char_type(byte);
}

void PathLines::look() {
  std::string head;
  // A byte, and with it what has come already.
  while (const std::optional<char> byte = take()) {
    head += *byte;
    const bool is_there = head.size() < kMaxLength && stream_.rdbuf()->in_avail() > 0;
    if (!is_there && !is_undecided(head)) break;
  }
  head_ = std::move(head);
}

PathLines::Content PathLines::content() {
  if (content_) return *content_;
  look();
  content_ = Content::paths;
  const image::PictureFormat* format =
      image::format_of_bytes(std::as_bytes(std::span(head_.data(), head_.size())));
  const bool has_zero = head_.find('\0') != std::string::npos;
  const bool is_other = head_.starts_with("%PDF-") || head_.starts_with("PK\3\4") ||
                        (has_zero && holds_controls(head_));
  if (format != nullptr) {
    content_ = Content::picture;
    description_ = "a picture (" + std::string(format->title) + ")";
  } else if (head_.starts_with("\xFF\xFE") || head_.starts_with("\xFE\xFF")) {
    content_ = Content::other;
    description_ = "text in UTF-16, where a list is in UTF-8";
  } else if (is_video(head_)) {
    content_ = Content::other;
    description_ = "a video, which is read from a file alone";
  } else if (is_other) {
    content_ = Content::other;
    description_ = "neither a list of paths nor a picture";
  } else if (head_.starts_with(kByteOrderMark)) {
    taken_ = kByteOrderMark.size();
  }
  if (has_zero) separator_ = '\0';
  return *content_;
}

std::vector<std::byte> PathLines::bytes(std::size_t most) {
  std::vector<std::byte> all;
  while (all.size() <= most) {
    const std::optional<char> byte = take();
    if (!byte) break;
    all.push_back(static_cast<std::byte>(*byte));
  }
  return all;
}

std::optional<PathLines::Line> PathLines::next() {
  static_cast<void>(content());
  while (auto line = read()) {
    if (line->text.empty() || line->text == "\r") continue;
    produced_ = true;
    return line;
  }
  return std::nullopt;
}

std::optional<PathLines::Line> PathLines::read() {
  std::optional<char> byte = take();
  if (!byte) return std::nullopt;
  Line line;
  for (; byte && *byte != separator_; byte = take()) {
    if (!produced_ && *byte == '\0') {
      separator_ = '\0';
      break;
    }
    if (line.text.size() < kMaxLength) {
      line.text += *byte;
    } else {
      line.too_long = true;
    }
  }
  return line;
}

}  // namespace hydrascope::app
