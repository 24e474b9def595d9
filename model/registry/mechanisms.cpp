#include "model/registry/mechanisms.h"

#include "kernels/error.h"
#include "kernels/number_text.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace hydrascope::model {
namespace {

/// "14x24", or "14" for both.
std::pair<std::string_view, std::string_view> axes_of(std::string_view text) {
  const auto cross = text.find('x');
  if (cross == std::string_view::npos) return {text, text};
  return {text.substr(0, cross), text.substr(cross + 1)};
}

std::optional<double> finite_number(std::string_view text) {
  const auto value = parse_number<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace

Catalogue<MechanismEntry>& mechanism_catalogue() {
  static Catalogue<MechanismEntry> entries("attention mechanism");
  return entries;
}

std::string describe_values(const MechanismOption& option) {
  std::string text;
  for (const std::string& choice : option.choices) text += (text.empty() ? "" : "|") + choice;
  if (!text.empty()) return text;
  return std::string(option.integer ? "an integer" : "a number") + " from " +
         shortest_number(option.minimum) + " to " + shortest_number(option.maximum) +
         (option.is_extent ? " or two, ROWSxCOLUMNS" : "");
}

void check_option(const MechanismEntry& entry, std::string_view key, std::string_view value,
                  const std::string& subject) {
  if (const auto former = entry.former_options.find(std::string(key));
      former != entry.former_options.end()) {
    if (value == former->second) return;
    throw Error(ErrorCode::invalid_argument,
                entry.name + "." + former->first + "=" + std::string(value) +
                    " is gone; what is left is " + former->first + "=" + former->second,
                subject);
  }
  check_option(entry.name, entry.options, key, value, subject);
}

void check_option(const std::string& entry, const std::vector<MechanismOption>& options,
                  std::string_view key, std::string_view value, const std::string& subject) {
  const auto option = std::ranges::find(options, key, &MechanismOption::key);
  if (option == options.end()) {
    std::string known;
    for (const MechanismOption& o : options) known += (known.empty() ? "" : ", ") + o.key;
    throw Error(ErrorCode::invalid_argument, entry + " has no option '" + std::string(key) + "'",
                subject, known.empty() ? entry + " takes no options" : "it has: " + known);
  }
  const auto is_in_range = [&](std::string_view text) {
    const auto number = finite_number(text);
    return number && *number >= option->minimum && *number <= option->maximum &&
           (!option->integer || std::trunc(*number) == *number);
  };
  if (!option->choices.empty()) {
    if (std::ranges::find(option->choices, value) != option->choices.end()) return;
  } else if (option->is_extent) {
    const auto [rows, columns] = axes_of(value);
    if (is_in_range(rows) && is_in_range(columns)) return;
  } else if (is_in_range(value)) {
    return;
  }
  const std::string name = entry + "." + option->key;
  if (std::ranges::find(option->former_choices, value) != option->former_choices.end())
    throw Error(ErrorCode::invalid_argument,
                name + "=" + std::string(value) + " is gone; convert the model again with " + name +
                    "=" + option->choices.back(),
                subject);
  throw Error(
      ErrorCode::invalid_argument,
      name + " expects " + describe_values(*option) + ", found '" + std::string(value) + "'",
      subject);
}

MechanismOptions::MechanismOptions(const AttentionSpec& spec)
    : MechanismOptions(find_mechanism(spec.mechanism), spec.options, "`attn_opt`") {}

const std::string& MechanismOptions::text(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end())
    throw Error(ErrorCode::internal, "option '" + key + "' is not declared");
  return found->second;
}

double MechanismOptions::number(const std::string& key) const {
  if (const auto value = finite_number(text(key))) return *value;
  throw Error(ErrorCode::internal, "option '" + key + "' is no number");
}

std::int64_t MechanismOptions::integer(const std::string& key) const {
  return static_cast<std::int64_t>(number(key));
}

GridExtent MechanismOptions::extent(const std::string& key, const TokenGrid& training) const {
  const auto [rows, columns] = axes_of(text(key));
  const auto patches = [&](std::string_view axis, std::int64_t trained) {
    const auto value = static_cast<std::int64_t>(finite_number(axis).value_or(0));
    return std::max<std::int64_t>(value > 0 ? value : trained, 1);
  };
  return {patches(rows, training.rows), patches(columns, training.columns)};
}

NumberOption::NumberOption(std::string of_key, std::string by_default, double least, double most,
                           std::string of_help)
    : MechanismOption{
          std::move(of_key), std::move(by_default), {}, std::move(of_help), least, most} {}

IntegerOption::IntegerOption(std::string of_key, std::int64_t by_default, std::int64_t least,
                             std::int64_t most, std::string of_help)
    : MechanismOption{
          std::move(of_key),          std::to_string(by_default), {},  std::move(of_help),
          static_cast<double>(least), static_cast<double>(most),  true} {}

ExtentOption::ExtentOption(std::string of_key, std::string of_help)
    : IntegerOption(std::move(of_key), 0, 0, 65536, std::move(of_help)) {
  is_extent = true;
}

SwitchOption::SwitchOption(std::string of_key, bool by_default, std::string of_help)
    : ChoiceOption(std::move(of_key), {{"on", true}, {"off", false}}, std::move(of_help)) {
  default_value = by_default ? "on" : "off";
}

}  // namespace hydrascope::model
