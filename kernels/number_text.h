// Numbers as people write them, beside error.h because every message may hold one.
#pragma once

#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace hydrascope {

/// The shortest text that reads back as `value`: "0.1", "1e-06", "8".
inline std::string shortest_number(double value) {
  std::array<char, 32> text{};  // the shortest form of a double is never longer
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

/// The number that all of `text` is; nothing if it is no number, or one that has no room. Infinities
/// and NaN are numbers.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stopped == end ? std::optional(value) : std::nullopt;
}

}  // namespace hydrascope
