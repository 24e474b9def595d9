// Enumerations whose values have words: files and the command line spell them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace hydrascope::model {

/// `words(Enum)` gives the words of all values, in their order.
template <class Enum>
concept HasWords = requires {
  words(Enum{});
};

template <HasWords Enum>
constexpr std::string_view name(Enum value) {
  return words(value).at(static_cast<std::size_t>(value));
}

template <HasWords Enum>
constexpr std::optional<Enum> find_word(std::string_view word) {
  const auto all = words(Enum{});
  const auto found = std::ranges::find(all, word);
  if (found == all.end()) return std::nullopt;
  return static_cast<Enum>(found - all.begin());
}

}  // namespace hydrascope::model
