#include "app/pictures/path_lines.h"

#include "model/image/picture_formats.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

namespace hydrascope::app {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF"sv;
constexpr std::size_t kMaxLength = 4096;  // PATH_MAX of Linux
constexpr std::size_t kTelling = 64;      // bytes that tell every format

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

PathLines::Content PathLines::content() {
  if (content_) return *content_;
  std::string head;
  bool tells = false;
  // What has come already is taken, too.
  while (head.size() < kMaxLength && (!tells || stream_.rdbuf()->in_avail() > 0)) {
    const std::optional<char> byte = take();
    if (!byte) break;
    head += *byte;
    tells = tells || head.size() >= kTelling || *byte == '\n' || *byte == '\0';
  }
  head_ = std::move(head);
  const bool has_zero = head_.find('\0') != std::string::npos;
  content_ = Content::paths;
  if (image::format_of_bytes(std::as_bytes(std::span(head_.data(), head_.size()))) != nullptr)
    content_ = Content::picture;
  else if (head_.starts_with("\xFF\xFE") || head_.starts_with("\xFE\xFF") ||
           head_.starts_with("%PDF-") || (has_zero && holds_controls(head_)))
    content_ = Content::other;
  else if (head_.starts_with(kByteOrderMark))
    taken_ = kByteOrderMark.size();
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
