#include "app/pictures/class_words.h"

#include "app/run/usage_error.h"
#include "app/run/words.h"
#include "kernels/number_text.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace hydrascope::app {

namespace {

/// The names of `label`, without its id.
std::vector<std::string> names_of(const image::Label& label) {
  std::vector<std::string> names;
  for (std::string_view rest = label.names; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view name = without_blanks(rest.substr(0, comma));
    if (!name.empty()) names.emplace_back(name);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return names;
}

/// "otter, potter or rotter", at most three, the nearest first; "" when nothing is near.
std::string nearest_names(std::string_view word, const image::Labels& labels) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const image::Label& label = labels.at(static_cast<std::int64_t>(i));
    if (!label.id.empty()) names.push_back(label.id);
    std::ranges::move(names_of(label), std::back_inserter(names));
  }
  std::vector<std::string> found;
  constexpr std::size_t kShown = 3;
  while (found.size() < kShown) {
    std::string name = nearest(word, names);
    if (name.empty()) break;
    std::erase(names, name);
    found.push_back(std::move(name));
  }
  return join_words(found, ", ", " or ");
}

/// The `classes` for which `is_meant` holds, if there are any.
template <class IsMeant>
void narrow(std::vector<std::int64_t>& classes, const IsMeant& is_meant) {
  std::vector<std::int64_t> meant;
  std::ranges::copy_if(classes, std::back_inserter(meant), is_meant);
  if (!meant.empty()) classes = std::move(meant);
}

}  // namespace

bool is_whole_number(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

ClassWords::ClassWords(const image::Labels& labels) : labels_(labels) {
  for (std::int64_t i = 0; std::cmp_less(i, labels.size()) && !names_are_numbers_; ++i) {
    // Most names hold no digit, and a server asks this with every request.
    if (labels.at(i).names.find_first_of("0123456789") == std::string::npos) continue;
    names_are_numbers_ = std::ranges::any_of(names_of(labels.at(i)), [&](const std::string& name) {
      return is_whole_number(name) && index_of(name) != i;
    });
  }
}

std::optional<std::int64_t> ClassWords::index_of(std::string_view word) const {
  if (!is_whole_number(word)) return std::nullopt;
  const auto index = parse_number<std::int64_t>(word);
  return index && std::cmp_less(*index, labels_.size()) ? index : std::nullopt;
}

ClassWords::Meaning ClassWords::meaning_of(std::string_view word) const {
  word = without_blanks(word);
  if (const auto index = labels_.find_id(word)) return {{*index}, true, false};
  std::vector<std::int64_t> named = labels_.find_name(word);
  // A whole name goes before one of several: in the case that it has, then in any.
  narrow(named, [&](std::int64_t index) { return labels_.at(index).names == word; });
  narrow(named, [&](std::int64_t index) {
    return labels_.at(index).names.find(',') == std::string::npos;
  });
  if (!named.empty()) return {named, true, index_of(word) == named.front()};
  const bool is_marked = word.starts_with(kIndexMark);
  if (names_are_numbers_ && !is_marked) return {};
  const auto index = index_of(is_marked ? word.substr(kIndexMark.size()) : word);
  return index ? Meaning{{*index}, false, true} : Meaning{};
}

std::string ClassWords::range() const {
  return "a class from 0 to " + std::to_string(labels_.size() - 1);
}

std::string ClassWords::describe(const std::vector<std::int64_t>& classes) const {
  std::vector<std::string> texts;
  for (const std::int64_t index : classes) {
    const image::Label& label = labels_.at(index);
    texts.push_back(std::to_string(index) + " (" + (label.id.empty() ? "" : label.id + ": ") +
                    label.names + ")");
  }
  return join_words(texts, ", ", ", ");
}

std::int64_t ClassWords::find(std::string_view word, const std::string& subject) const {
  const std::vector<std::int64_t> classes = meaning_of(word).classes;
  if (classes.size() == 1) return classes.front();
  if (!classes.empty()) {
    throw UsageError(std::to_string(classes.size()) + " classes have this name", subject,
                     "one of " + describe(classes));
  }
  word = without_blanks(word);
  const bool is_marked = word.starts_with(kIndexMark);
  std::string_view number = is_marked ? word.substr(kIndexMark.size()) : word;
  const bool is_negative = number.starts_with('-');
  if (is_negative) number.remove_prefix(1);
  if (is_whole_number(number)) {
    if (names_are_numbers_ && !is_marked && !is_negative) {
      throw UsageError("the model's classes are called by numbers, none by this one", subject,
                       std::string(kIndexMark) + "N means the class of index N");
    }
    // Twice the same number in the message says that the word counts from 1.
    const bool is_end = !is_negative && number == std::to_string(labels_.size());
    throw UsageError("expected " + range(), subject, is_end ? "indices count from 0" : "");
  }
  const std::string near = nearest_names(word, labels_);
  throw UsageError("there is no class of that name", subject,
                   near.empty()
                       ? "a class index, synset id or name; `hydrascope classify` shows some"
                       : "did you mean " + near + "?");
}

}  // namespace hydrascope::app
