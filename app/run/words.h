// Words in messages: lists of them, and the one that was meant.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

/// ASCII's capital letters become small ones.
std::string small_letters(std::string_view text);

/// {"a", "b", "c"} -> "a, b or c".
std::string join_words(const std::vector<std::string>& words, std::string_view separator,
                       std::string_view last_separator);

/// The name of an option in a message, "`img_size`"; front ends spell it (`spelled` in console.h). A word
/// that cannot be a name stays as on a command line, "--Img".
std::string option_named(std::string_view name);

/// The candidate closest to `word` by edit distance (letters swapped count once, case does not
/// count), else the only one that begins with it, or "" when nothing is near.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace hydrascope::app
