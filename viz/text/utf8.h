// UTF-8 -> code points, and which of them are no text.
#pragma once

#include <cstddef>
#include <string_view>

namespace hydrascope::viz {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;  ///< that it was written in, at least 1
};

/// The first of `text`, which must not be empty. Bytes that are no UTF-8 (a stray byte, a form longer than
/// needed, a surrogate, a number above U+10FFFF, the start of a character that is cut off) are
/// U+FFFD, one for each maximal part as the Unicode standard recommends (chapter 3.9).
CodePoint first_code_point(std::string_view text);

/// C0, DEL and C1: line breaks are among them.
constexpr bool is_control(char32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0);
}

/// Marks, embeddings, overrides and isolates that turn the direction of text.
constexpr bool turns_direction(char32_t code_point) {
  return code_point == 0x61C || code_point == 0x200E || code_point == 0x200F ||
         (code_point >= 0x202A && code_point <= 0x202E) ||
         (code_point >= 0x2066 && code_point <= 0x2069);
}

}  // namespace hydrascope::viz
