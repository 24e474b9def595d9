// How the options of a command line fill the fields of a request.
#pragma once

#include "app/options/options.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {

/// An option of these roles that the command line gives; null without one. A value in a file of --config may be
/// another command's default.
inline const GivenOption* given_of(const ParsedOptions& options,
                                   std::initializer_list<Role> roles) {
  for (const auto& [name, entry] : options.entries())
    if (entry.source == Source::command_line &&
        std::find(roles.begin(), roles.end(), entry.option.role) != roles.end())
      return &entry;
  return nullptr;
}

// `take`: a field gets the option's value. It stays as it is where there is none, and where the command
// has made a list of an option that is one value elsewhere: such a list is the command's own to read. An
// optional field also stays where the option is not given.

inline void take(const GivenOption& given, bool& field) { field = given.flag(); }
inline void take(const GivenOption& given, std::string& field) {
  if (given.holds_one()) field = given.text();
}
inline void take(const GivenOption& given, std::filesystem::path& field) {
  if (given.holds_one()) field = given.text();
}
inline void take(const GivenOption& given, std::vector<std::string>& field) {
  field = given.values;
}
template <class Number>
requires std::integral<Number> || std::floating_point<Number>
void take(const GivenOption& given, Number& field) {
  if (!given.holds_one() || given.text().empty()) return;
  if constexpr (std::integral<Number>)
    field = static_cast<Number>(given.integer());
  else
    field = given.number();
}
template <std::size_t count>
void take(const GivenOption& given, std::array<double, count>& field) {
  const std::vector<double> values = given.numbers();
  for (std::size_t i = 0; i < count && !values.empty(); ++i) field.at(i) = values.at(i);
}
template <class Value>
void take(const GivenOption& given, std::optional<Value>& field) {
  if (!given.given() || !given.holds_one()) return;
  Value value{};
  take(given, value);
  field = std::move(value);
}
template <class Value>
void take(const GivenOption& given, std::optional<Asked<Value>>& field) {
  if (!given.given()) return;
  field.emplace().origin = given.origin;
  take(given, field->value);
}

// The same; `parse` makes the value of a word.

template <class Value, class Parse>
void take(const GivenOption& given, Value& field, const Parse& parse) {
  if (given.holds_one()) field = parse(given.text());
}
template <class Value, class Parse>
void take(const GivenOption& given, std::vector<Value>& field, const Parse& parse) {
  for (const std::string& word : given.values) field.push_back(parse(word));
}
template <class Value, class Parse>
void take(const GivenOption& given, std::optional<Value>& field, const Parse& parse) {
  if (given.given() && given.holds_one()) field = parse(given.text());
}
template <class Value, class Parse>
void take(const GivenOption& given, std::optional<Asked<Value>>& field, const Parse& parse) {
  if (given.given() && given.holds_one()) field = Asked<Value>{parse(given.text()), given.origin};
}

}  // namespace hydrascope::app
