#include "app/run/terminal_text.h"

#include "model/checkpoint/formats/strict_json.h"
#include "viz/text/utf8.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>

namespace hydrascope::app {
namespace {

std::string escape(char32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\t') return "\\t";
  if (code == '\r') return "\\r";
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = code <= 0xFF ? "\\x" : "\\u";
  for (int shift = code <= 0xFF ? 4 : 12; shift >= 0; shift -= 4)
    text += kDigits[code >> shift & 0xF];
  return text;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  std::size_t end = 0;  // of the bytes that are UTF-8
  for (std::size_t index = 0, size = 1; index < text.size(); index += size) {
    if (index >= end) end = index + checkpoint::find_bad_utf8(text.substr(index));
    const auto byte = static_cast<unsigned char>(text[index]);
    size = index == end || byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    char32_t code = size == 1 ? byte : byte & (0xFFU >> (size + 1));
    for (std::size_t i = 1; i < size; ++i)
      code = code << 6 | (static_cast<unsigned char>(text[index + i]) & 0x3FU);
    const bool is_shown = index < end && !viz::is_control(code) && !viz::turns_direction(code);
    shown += is_shown ? text.substr(index, size) : escape(code);
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

std::string printable_json(const nlohmann::ordered_json& value) {
  const auto dumped = [&](bool is_ascii) {
    return value.dump(-1, ' ', is_ascii, nlohmann::ordered_json::error_handler_t::replace);
  };
  std::string text = dumped(false);
  return printable(text) == text ? text : dumped(true);
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
  if (!color || text.empty() || style == Style::plain) return result;
  constexpr std::array kCodes{"0", "1", "2", "32", "31"};  // in the order of `Style`
  return std::string("\x1b[") + kCodes.at(static_cast<std::size_t>(style)) + 'm' + result +
         "\x1b[0m";
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
