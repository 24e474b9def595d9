#include "app/run/words.h"

#include "kernels/error.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace hydrascope::app {
namespace {

/// Damerau-Levenshtein distance, each pair of neighbours swapped at most once (optimal string
/// alignment): two swapped letters are one slip of the fingers.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) current[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, current);
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({last[j] + 1, current[j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before_last[j - 2] + 1);
      }
    }
  }
  return current[b.size()];
}

}  // namespace

std::string small_letters(std::string_view text) {
  std::string result(text);
  for (char& letter : result)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return result;
}

std::string join_words(const std::vector<std::string>& words, std::string_view separator,
                       std::string_view last_separator) {
  std::string result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) result += i + 1 == words.size() ? last_separator : separator;
    result += words[i];
  }
  return result;
}

std::string option_named(std::string_view name) {
  std::string field(name);
  std::ranges::replace(field, '-', '_');
  return is_field(field) ? "`" + field + "`" : "--" + std::string(name);
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  const std::string wanted = small_letters(word);
  const std::string* best = nullptr;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    // One slip in three letters; a word that shares no letter is no neighbour, however short.
    const std::size_t longer = std::max(wanted.size(), candidate.size());
    const std::size_t shorter = std::min(wanted.size(), candidate.size());
    const std::size_t allowed = std::max<std::size_t>(1, longer / 3);
    if (shorter == 0 || longer - shorter > allowed) continue;
    const std::size_t distance = edit_distance(wanted, small_letters(candidate));
    if (distance > allowed || distance >= shorter) continue;
    if (best == nullptr || distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  if (best != nullptr) return *best;

  std::string completed;
  for (const std::string& candidate : candidates) {
    if (wanted.size() < 2 || !small_letters(candidate).starts_with(wanted)) continue;
    if (!completed.empty()) return {};
    completed = candidate;
  }
  return completed;
}

}  // namespace hydrascope::app
