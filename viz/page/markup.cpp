#include "viz/page/markup.h"

#include "kernels/error.h"
#include "viz/text/utf8.h"

#include <algorithm>
#include <cstdint>

namespace hydrascope::viz::page {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// HTML allows tab, line feed and carriage return.
bool is_forbidden_control(char32_t character) {
  return is_control(character) && character != '\t' && character != '\n' && character != '\r';
}

std::string spelled(char32_t character) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) text += kDigits[character >> shift & 0xF];
  return text;
}

}  // namespace

std::string valid_text(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const CodePoint character = first_code_point(bytes);
    const bool is_replaced =
        character.value == kReplacementCharacter || is_forbidden_control(character.value);
    text += is_replaced ? kReplacement : bytes.substr(0, character.bytes);
    bytes.remove_prefix(character.bytes);
  }
  return text;
}

std::string escaped(std::string_view bytes) {
  std::string markup;
  const std::string text = valid_text(bytes);
  for (std::string_view left = text; !left.empty();) {
    const CodePoint character = first_code_point(left);
    switch (character.value) {
      case '&': markup += "&amp;"; break;
      case '<': markup += "&lt;"; break;
      case '>': markup += "&gt;"; break;
      case '"': markup += "&quot;"; break;
      case '\'': markup += "&#39;"; break;
      default:
        if (turns_direction(character.value))
          markup += spelled(character.value);
        else
          markup += left.substr(0, character.bytes);
    }
    left.remove_prefix(character.bytes);
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
    if (close == page.npos) throw Error(ErrorCode::internal, "a place of the page without end");
    const std::string_view name = page.substr(open + 2, close - open - 2);
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
