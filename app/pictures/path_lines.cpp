#include "app/pictures/path_lines.h"

#include "kernels/error.h"

#include <ios>
#include <string_view>
#include <utility>

namespace hydrascope::app {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::size_t kMaxLength = 4096;  // PATH_MAX of Linux

}  // namespace

PathLines::PathLines(std::string given, std::istream& stream)
    : given_(std::move(given)), stream_(stream) {}

PathLines::PathLines(std::string given, std::unique_ptr<std::ifstream> file,
                     std::filesystem::path folder)
    : given_(std::move(given)),
      file_(std::move(file)),
      stream_(*file_),
      folder_(std::move(folder)) {}

std::optional<PathLines::Line> PathLines::next() try {
  while (auto line = read()) {
    if (std::exchange(is_first_, false) && line->text.starts_with(kByteOrderMark)) {
      line->text.erase(0, kByteOrderMark.size());
    }
    if (line->text.empty() || line->text == "\r") continue;
    produced_ = true;
    return line;
  }
  return std::nullopt;
} catch (const std::ios_base::failure&) {
  throw Error(ErrorCode::unreadable, "the list cannot be read", given_);
}

std::optional<PathLines::Line> PathLines::read() {
  using Traits = std::istream::traits_type;
  std::streambuf* buffer = stream_.rdbuf();
  const auto at_end = [](Traits::int_type byte) {
    return Traits::eq_int_type(byte, Traits::eof());
  };
  auto byte = buffer->sbumpc();
  if (at_end(byte)) return std::nullopt;
  Line line;
  for (; !at_end(byte) && byte != '\n'; byte = buffer->sbumpc()) {
    if (line.text.size() < kMaxLength) {
      line.text += Traits::to_char_type(byte);
    } else {
      line.too_long = true;
    }
  }
  return line;
}

}  // namespace hydrascope::app
