// From a parsed command line to the fields of a request.
#pragma once

#include "app/options/options.h"

#include <array>
#include <concepts>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {

/// A value, and what the user set it by: "`imgsz`", "config.json".
template <class Value>
struct Asked {
  Value value{};
  std::string origin;
};

/// Fills fields from the options that a command has. A field stays as it is where its option is not
/// declared or has no value, an optional one also where it is not given; what a command takes as a
/// list and others do not is its own to read.
class OptionReader {
 public:
  explicit OptionReader(const ParsedOptions& options) : options_(options) {}

  [[nodiscard]] bool given(const char* name) const {
    return options_.declares(name) && options_.given(name);
  }
  /// Whether `name` has that value.
  [[nodiscard]] bool is(const char* name, std::string_view value) const {
    return options_.takes_one_value(name) && options_.text(name) == value;
  }
  void take(const char* name, bool& field) const {
    if (options_.declares(name)) field = options_.flag(name);
  }
  void take(const char* name, std::string& field) const {
    if (options_.takes_one_value(name)) field = options_.text(name);
  }
  void take(const char* name, std::vector<std::string>& field) const {
    if (options_.declares(name)) field = options_.texts(name);
  }
  template <class Number>
  requires std::integral<Number> || std::floating_point<Number>
  void take(const char* name, Number& field) const {
    if (!options_.takes_one_value(name) || options_.text(name).empty()) return;
    if constexpr (std::integral<Number>)
      field = static_cast<Number>(options_.integer(name));
    else
      field = options_.number(name);
  }
  template <std::size_t count>
  void take(const char* name, std::array<double, count>& field) const {
    if (!options_.declares(name)) return;
    const std::vector<double> values = options_.numbers(name);
    for (std::size_t i = 0; i < count && !values.empty(); ++i) field.at(i) = values.at(i);
  }
  template <class Value>
  void take(const char* name, std::optional<Value>& field) const {
    if (!options_.takes_one_value(name) || !options_.given(name)) return;
    Value value{};
    take(name, value);
    field = std::move(value);
  }
  /// `read` gives the value.
  template <class Value, class Read>
  void take(const char* name, std::optional<Value>& field, const Read& read) const {
    if (given(name)) field = read();
  }
  template <class Value, class Read>
  void take(const char* name, std::optional<Asked<Value>>& field, const Read& read) const {
    if (given(name)) field = Asked<Value>{read(), options_.origin(name)};
  }

 private:
  const ParsedOptions& options_;
};

}  // namespace hydrascope::app
