#include "viz/text/utf8.h"

#include <cstdint>

namespace hydrascope::viz {
namespace {

/// By the first byte: how many follow, and what the second one may be (Unicode, table 3-7).
struct Lead {
  std::size_t following;
  std::uint8_t least;
  std::uint8_t most;
};

constexpr Lead lead(std::uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

CodePoint first_code_point(std::string_view text) {
  const auto first = static_cast<std::uint8_t>(text.front());
  if (first < 0x80) return {first, 1};
  const Lead form = lead(first);
  if (form.following == 0) return {kReplacementCharacter, 1};
  // The bits of the first byte below its row of ones.
  char32_t value = first & (0x3FU >> form.following);
  for (std::size_t i = 1; i <= form.following; ++i) {
    if (i == text.size()) return {kReplacementCharacter, i};
    const auto byte = static_cast<std::uint8_t>(text[i]);
    const bool is_wanted =
        i == 1 ? byte >= form.least && byte <= form.most : byte >= 0x80 && byte <= 0xBF;
    if (!is_wanted) return {kReplacementCharacter, i};
    value = (value << 6) | (byte & 0x3FU);
  }
  return {value, form.following + 1};
}

}  // namespace hydrascope::viz
