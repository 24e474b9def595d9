#include "viz/html_report/markup.h"

#include "kernels/error.h"

#include <algorithm>
#include <cstdint>

namespace hydrascope::viz::page {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// What may follow a lead byte, by Unicode 15, table 3-7.
struct Lead {
  std::size_t length = 0;  ///< of the whole sequence; 0: no lead byte
  unsigned char second_low = 0x80;
  unsigned char second_high = 0xBF;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {.length = 1};
  if (byte < 0xC2 || byte > 0xF4) return {};
  if (byte < 0xE0) return {.length = 2};
  if (byte < 0xF0) {
    return {.length = 3,
            .second_low = static_cast<unsigned char>(byte == 0xE0 ? 0xA0 : 0x80),
            .second_high = static_cast<unsigned char>(byte == 0xED ? 0x9F : 0xBF)};
  }
  return {.length = 4,
          .second_low = static_cast<unsigned char>(byte == 0xF0 ? 0x90 : 0x80),
          .second_high = static_cast<unsigned char>(byte == 0xF4 ? 0x8F : 0xBF)};
}

struct Sequence {
  std::size_t length = 1;  ///< bytes; of the longest beginning of a character where it is invalid
  bool valid = false;
};

Sequence sequence_at(std::string_view bytes, std::size_t at) {
  const Lead lead = lead_of(static_cast<unsigned char>(bytes[at]));
  if (lead.length == 0) return {};
  std::size_t length = 1;
  for (; length < lead.length && at + length < bytes.size(); ++length) {
    const auto byte = static_cast<unsigned char>(bytes[at + length]);
    const unsigned char low = length == 1 ? lead.second_low : 0x80;
    const unsigned char high = length == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {length, false};
  }
  return {length, length == lead.length};
}

/// HTML allows tab, line feed and carriage return of C0, and neither DEL nor C1.
bool is_forbidden_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (first < 0x20) return first != '\t' && first != '\n' && first != '\r';
  return first == 0x7F || (first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0);
}

}  // namespace

std::string valid_text(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const Sequence sequence = sequence_at(bytes, at);
    const std::string_view character = bytes.substr(at, sequence.length);
    text += sequence.valid && !is_forbidden_control(character) ? character : kReplacement;
    at += sequence.length;
  }
  return text;
}

std::string escaped(std::string_view bytes) {
  std::string markup;
  for (const char character : valid_text(bytes)) {
    switch (character) {
      case '&': markup += "&amp;"; break;
      case '<': markup += "&lt;"; break;
      case '>': markup += "&gt;"; break;
      case '"': markup += "&quot;"; break;
      case '\'': markup += "&#39;"; break;
      default: markup += character;
    }
  }
  return markup;
}

std::string base64(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(bytes.size() - at, 3);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      group = group << 8 | (i < count ? std::to_integer<std::uint32_t>(bytes[at + i]) : 0);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      text += i <= count ? kDigits[group >> (18 - 6 * i) & 63] : '=';
    }
  }
  return text;
}

std::string fill(std::string_view page,
                 std::initializer_list<std::pair<std::string_view, std::string_view>> values) {
  std::string filled;
  while (true) {
    const std::size_t open = page.find("{{");
    filled += page.substr(0, open);
    if (open == page.npos) return filled;
    const std::size_t close = page.find("}}", open);
    const std::string_view name =
        page.substr(open + 2, close == page.npos ? page.npos : close - open - 2);
    const auto* value = std::find_if(values.begin(), values.end(),
                                     [&](const auto& entry) { return entry.first == name; });
    if (value == values.end()) {
      throw Error(ErrorCode::internal, "nothing to put into the page's place", std::string(name));
    }
    filled += value->second;
    page.remove_prefix(close + 2);
  }
}

}  // namespace hydrascope::viz::page
