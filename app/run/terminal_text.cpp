#include "app/run/terminal_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>

namespace hydrascope::app {
namespace {

std::string escape(unsigned char control) {
  switch (control) {
    case '\n': return "\\n";
    case '\t': return "\\t";
    case '\r': return "\\r";
    default: break;
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  return {'\\', 'x', kDigits[control >> 4], kDigits[control & 0xF]};
}

/// Bytes of the character that `text` begins with, 0 where they are no UTF-8.
std::size_t utf8_size(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t size = first < 0x80                    ? 1
                           : first >= 0xC2 && first < 0xE0 ? 2
                           : first >= 0xE0 && first < 0xF0 ? 3
                           : first >= 0xF0 && first < 0xF5 ? 4
                                                           : 0;
  if (size == 0 || text.size() < size) return 0;
  const bool goes_on = std::ranges::all_of(text.substr(1, size - 1), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
  });
  return goes_on ? size : 0;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t index = 0; index < text.size();) {
    const auto byte = static_cast<unsigned char>(text[index]);
    const auto next = index + 1 < text.size() ? static_cast<unsigned char>(text[index + 1]) : 0;
    const std::size_t size = utf8_size(text.substr(index));
    const bool is_control =
        byte < 0x20 || byte == 0x7F || (size == 0 && byte >= 0x80 && byte < 0xA0);
    if (is_control) {
      shown += escape(byte);
    } else if (size == 2 && byte == 0xC2 && next < 0xA0) {
      shown += escape(static_cast<unsigned char>(next));
    } else {
      shown += text.substr(index, std::max<std::size_t>(size, 1));
    }
    index += std::max<std::size_t>(size, 1);
  }
  return shown;
}

std::string printable_lines(std::string_view text) {
  std::string shown;
  while (true) {
    const std::size_t end = text.find('\n');
    shown += printable(text.substr(0, end));
    if (end == text.npos) return shown;
    shown += '\n';
    text.remove_prefix(end + 1);
  }
}

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  }));
}

int output_columns() {
  constexpr int kUnknown = 100;
  constexpr int kMost = 120;
  winsize size{};
  int columns = 0;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
    columns = size.ws_col;
  } else if (const char* told = std::getenv("COLUMNS")) {
    columns = std::atoi(told);
  }
  return columns > 0 ? std::min(columns, kMost) : kUnknown;
}

std::string styled(std::string_view text, Style style, bool color) {
  std::string result(text);
  if (!color || text.empty()) return result;
  switch (style) {
    case Style::plain: return result;
    case Style::bold: return "\x1b[1m" + result + "\x1b[0m";
    case Style::dim: return "\x1b[2m" + result + "\x1b[0m";
    case Style::green: return "\x1b[32m" + result + "\x1b[0m";
    case Style::red: return "\x1b[31m" + result + "\x1b[0m";
  }
  return result;
}

std::string duration(double seconds) {
  return seconds < 1 ? fixed(seconds * 1e3, 1) + " ms" : fixed(seconds, 2) + " s";
}

std::string fixed(double value, int decimals) {
  // The largest double has 309 digits before its point.
  std::array<char, 352> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                    std::chars_format::fixed, std::clamp(decimals, 0, 30));
  return {buffer.data(), result.ptr};
}

}  // namespace hydrascope::app
