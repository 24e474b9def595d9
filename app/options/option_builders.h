// Words for writing tables of options: a kind with the option's name and help, then the field that it
// fills and what else it has: `integer("topk", "classes of every input", into(&ClassifyRequest::topk),
// takes("K"), by_default("5"), at_least(1))`.
#pragma once

#include "app/options/option_fields.h"
#include "app/options/options.h"
#include "app/run/console.h"

#include <concepts>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::app {

/// The option fills that field, by `take` (option_fields.h).
template <class Request, class Value>
auto into(Value Request::*member) {
  return [=](Option& option) {
    option.field = member;
    option.fill = [=](void* request, const GivenOption& given) {
      take(given, static_cast<Request*>(request)->*member);
    };
  };
}
/// The same; `parse` makes the value of a word.
template <class Request, class Value, class Parse>
auto into(Value Request::*member, Parse parse) {
  return [=](Option& option) {
    option.field = member;
    option.fill = [=](void* request, const GivenOption& given) {
      take(given, static_cast<Request*>(request)->*member, parse);
    };
  };
}
/// The option is that field's, which the request's own function fills: it depends on more than this.
inline auto for_field(Field field) {
  return [=](Option& option) { option.field = field; };
}

/// Reads a choice of "on" and "off".
inline bool is_on(const std::string& word) { return word == "on"; }

// Further parts of an option; each sets the field of `Option` whose comment explains it.
/// A key of `--set`, as "model.overview".
inline auto keyed(std::string key) {
  return [=](Option& option) {
    option.key = key;
    spell_as_setting(option.name);
  };
}
inline auto letter(char name) {
  return [=](Option& option) { option.short_name = name; };
}
inline auto takes(std::string placeholder) {
  return [=](Option& option) { option.placeholder = placeholder; };
}
inline auto by_default(std::string value) {
  return [=](Option& option) { option.default_value = value; };
}
/// The behaviour without a value.
inline auto otherwise(std::string note) {
  return [=](Option& option) { option.default_note = note; };
}
inline auto one_of(std::vector<std::string> choices) {
  return [=](Option& option) { option.choices = choices; };
}
inline auto synonyms(std::map<std::string, std::string> words) {
  return [=](Option& option) { option.synonyms = words; };
}
inline auto also(std::vector<OptionAlias> aliases) {
  return [=](Option& option) { option.aliases = aliases; };
}
inline auto role(Role role) {
  return [=](Option& option) { option.role = role; };
}
inline auto values(int count) {
  return [=](Option& option) { option.values = count; };
}
inline auto at_least(double minimum) {
  return [=](Option& option) { option.minimum = minimum; };
}
inline auto at_most(double maximum) {
  return [=](Option& option) { option.maximum = maximum; };
}
inline auto in(std::string group) {
  return [=](Option& option) { option.group = group; };
}
inline constexpr auto unseen = [](Option& option) { option.hidden = true; };
inline constexpr auto comma_list = [](Option& option) { option.comma_list = true; };
inline constexpr auto repeatable = [](Option& option) { option.repeatable = true; };
inline constexpr auto completes_files = [](Option& option) { option.completes_files = true; };
/// Names files that must be there.
inline constexpr auto reads = [](Option& option) {
  option.completes_files = option.is_read = true;
};
inline constexpr auto as_argument = [](Option& option) { option.is_argument = true; };
/// Names files, and to write.
inline constexpr auto written = [](Option& option) {
  option.completes_files = option.is_written = true;
};

template <class... Traits>
Option option_with(Option option, const Traits&... traits) {
  (traits(option), ...);
  return option;
}
template <std::invocable<Option&>... Traits>
Option flag(std::string name, std::string help, const Traits&... traits) {
  return option_with({.name = std::move(name), .kind = ValueKind::flag, .help = std::move(help)},
                     traits...);
}
template <std::invocable<Option&>... Traits>
Option text(std::string name, std::string help, const Traits&... traits) {
  return option_with({.name = std::move(name), .help = std::move(help)}, traits...);
}
/// Takes N.
template <std::invocable<Option&>... Traits>
Option integer(std::string name, std::string help, const Traits&... traits) {
  return option_with({.name = std::move(name),
                      .kind = ValueKind::integer,
                      .placeholder = "N",
                      .help = std::move(help)},
                     traits...);
}
/// Takes X.
template <std::invocable<Option&>... Traits>
Option number(std::string name, std::string help, const Traits&... traits) {
  return option_with({.name = std::move(name),
                      .kind = ValueKind::number,
                      .placeholder = "X",
                      .help = std::move(help)},
                     traits...);
}
/// At least `minimum`.
template <std::invocable<Option&> Binding>
Option number(std::string name, std::string help, const Binding& binding, std::string default_value,
              double minimum = 0) {
  return number(std::move(name), std::move(help), binding, by_default(std::move(default_value)),
                at_least(minimum));
}
template <std::invocable<Option&> Binding>
Option integer(std::string name, std::string help, const Binding& binding,
               std::string default_value, double minimum = 0) {
  return integer(std::move(name), std::move(help), binding, by_default(std::move(default_value)),
                 at_least(minimum));
}
/// Between 0 and 1.
template <std::invocable<Option&> Binding>
Option share(std::string name, std::string help, const Binding& binding,
             std::string default_value) {
  return number(std::move(name), std::move(help), binding, by_default(std::move(default_value)),
                at_least(0), at_most(1));
}
/// The number format of commands that write weights.
Option stored_dtype(std::string default_note);

/// All of them under that heading of the help, and with that role where an option has none of its own.
std::vector<Option> in_group(const std::string& group, Role role, std::vector<Option> options);
std::vector<Option> without(std::vector<Option> options, std::initializer_list<Field> fields);
/// The same, each a key of `--set` in that section: "optimizer" makes "optimizer.momentum".
std::vector<Option> in_section(const std::string& section, std::vector<Option> options);
/// The same, those of `fields` hidden.
std::vector<Option> hide(std::vector<Option> options, std::initializer_list<Field> fields);
/// The row of `field`, to change what a command has otherwise. Error(internal) if there is none.
Option& row_of(std::vector<Option>& options, const Field& field);

}  // namespace hydrascope::app
