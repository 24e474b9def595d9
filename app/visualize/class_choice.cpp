#include "app/visualize/class_choice.h"

#include "app/options/option_table.h"
#include "app/options/options.h"
#include "kernels/error.h"

#include <algorithm>

namespace hydrascope::app {
namespace {

constexpr std::string_view kPredicted = "pred";

/// Every name that a class goes by, ids included.
std::vector<std::string> all_names(const image::Labels& labels) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const image::Label& label = labels.at(static_cast<std::int64_t>(i));
    if (!label.id.empty()) names.push_back(label.id);
    std::string_view rest = label.names;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      std::string_view name = rest.substr(0, comma);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      const std::size_t begin = std::min(name.find_first_not_of(' '), name.size());
      name.remove_prefix(begin);
      if (!name.empty()) names.emplace_back(name);
    }
  }
  return names;
}

/// "otter, potter or rotter", at most three, the nearest first; "" when nothing is near.
std::string nearest_names(std::string_view word, const image::Labels& labels) {
  std::vector<std::string> names = all_names(labels);
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

[[noreturn]] void refuse_ambiguous(std::string_view word, std::span<const std::int64_t> classes,
                                   const image::Labels& labels) {
  std::string hint = "one of";
  for (const std::int64_t index : classes) {
    const image::Label& label = labels.at(index);
    hint += (index == classes.front() ? " " : ", ") + std::to_string(index) + " (";
    hint += (label.id.empty() ? "" : label.id + ": ") + label.names + ")";
  }
  throw Error(ErrorCode::invalid_argument,
              std::to_string(classes.size()) + " classes have this name",
              "--class " + std::string(word), hint);
}

}  // namespace

std::int64_t find_class(std::string_view word, const image::Labels& labels) {
  const std::string subject = "--class " + std::string(word);
  if (const auto index = labels.find_id(word)) return *index;
  const std::size_t digits = word.starts_with('-') ? 1 : 0;
  const bool is_number = word.size() > digits &&
                         word.find_first_not_of("0123456789", digits) == std::string_view::npos;
  if (is_number) {
    const std::int64_t index = to_integer(word, subject);
    const auto count = static_cast<std::int64_t>(labels.size());
    if (index >= 0 && index < count) return index;
    throw Error(ErrorCode::invalid_argument,
                "expected a class from 0 to " + std::to_string(count - 1), subject);
  }
  const std::vector<std::int64_t> classes = labels.find_name(word);
  if (classes.size() > 1) refuse_ambiguous(word, classes, labels);
  if (!classes.empty()) return classes.front();
  const std::string near = nearest_names(word, labels);
  throw Error(ErrorCode::invalid_argument, "there is no class of that name", subject,
              near.empty() ? "a class index, synset id or name; `hydrascope classify` shows some"
                           : "did you mean " + near + "?");
}

ClassChoice::ClassChoice(std::span<const std::string> words, std::optional<std::int64_t> topk,
                         const image::Labels& labels) {
  bool has_predicted = false;
  for (const std::string& word : words) {
    if (word != kPredicted) {
      slots_.emplace_back(find_class(word, labels));
    } else if (!has_predicted) {
      slots_.emplace_back(std::nullopt);
      has_predicted = true;
    }
  }
  if (!has_predicted && (words.empty() || topk)) slots_.insert(slots_.begin(), std::nullopt);
  num_best_ = std::min(topk.value_or(1), static_cast<std::int64_t>(labels.size()));
}

std::int64_t ClassChoice::most_classes() const noexcept {
  std::int64_t count = 0;
  for (const auto& slot : slots_) count += slot ? 1 : num_best_;
  return count;
}

std::vector<std::int64_t> ClassChoice::resolve(std::span<const std::int64_t> best,
                                               bool keep_repeated) const {
  std::vector<std::int64_t> classes;
  const auto add = [&](std::int64_t index) {
    if (keep_repeated || std::ranges::find(classes, index) == classes.end())
      classes.push_back(index);
  };
  for (const auto& slot : slots_) {
    if (slot) {
      add(*slot);
    } else {
      for (const std::int64_t index : best) add(index);
    }
  }
  return classes;
}

}  // namespace hydrascope::app
