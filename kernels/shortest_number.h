// A number as people write it, beside error.h because every message may hold one.
#pragma once

#include <array>
#include <charconv>
#include <string>

namespace hydrascope {

/// The shortest text that reads back as `value`: "0.1", "1e-06", "8".
inline std::string shortest_number(double value) {
  std::array<char, 32> text{};  // the shortest form of a double is never longer
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

}  // namespace hydrascope
