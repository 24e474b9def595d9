#include "app/run/terminal_text.h"

#include <algorithm>
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

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t index = 0; index < text.size(); ++index) {
    const auto byte = static_cast<unsigned char>(text[index]);
    const auto next = index + 1 < text.size() ? static_cast<unsigned char>(text[index + 1]) : 0;
    if (byte < 0x20 || byte == 0x7F) {
      shown += escape(byte);
    } else if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {
      shown += escape(static_cast<unsigned char>(next));
      ++index;
    } else {
      shown += text[index];
    }
  }
  return shown;
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

}  // namespace hydrascope::app
