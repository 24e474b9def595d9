#include "app/options/option_table.h"

#include "app/run/usage_error.h"
#include "app/run/words.h"
#include "kernels/number_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <system_error>

namespace hydrascope::app {
namespace {

template <typename Number>
Number to_arithmetic(std::string_view word, std::string_view subject, std::string_view expected) {
  // from_chars takes no '+', users write it; "+-1" stays an error.
  const bool has_plus = word.size() > 1 && word[0] == '+' && word[1] != '-';
  const std::string_view digits = word.substr(has_plus ? 1 : 0);
  Number value{};
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = end == digits.data() + digits.size() && !digits.empty();
  if (whole && code == std::errc::result_out_of_range) {
    throw UsageError("'" + std::string(word) + "' does not fit into 64 bits", std::string(subject));
  }
  if (!whole || code != std::errc{} || !std::isfinite(static_cast<double>(value))) {
    throw UsageError("expected " + std::string(expected) + ", found '" + std::string(word) + "'",
                     std::string(subject));
  }
  return value;
}

void check_range(const Option& option, double value, const std::string& word,
                 const std::string& subject) {
  if (option.minimum && value < *option.minimum) {
    throw UsageError("expected at least " + shortest_number(*option.minimum) + ", found " + word,
                     subject);
  }
  if (option.maximum && value > *option.maximum) {
    throw UsageError("expected at most " + shortest_number(*option.maximum) + ", found " + word,
                     subject);
  }
}

void check_choice(const Option& option, const std::string& word, const std::string& subject) {
  if (option.choices.empty() || std::ranges::find(option.choices, word) != option.choices.end()) {
    return;
  }
  const std::string near = nearest(word, option.choices);
  throw UsageError(
      "expected " + join_words(option.choices, ", ", " or ") + ", found '" + word + "'", subject,
      near.empty() ? instead_of("--" + option.name + " " + word) : "did you mean " + near + "?");
}

std::string to_flag(const std::string& word, const std::string& subject) {
  static const std::set<std::string> kTrue = {"true", "yes", "on", "1"};
  static const std::set<std::string> kFalse = {"false", "no", "off", "0"};
  if (kTrue.contains(small_letters(word))) return "true";
  if (kFalse.contains(small_letters(word))) return "false";
  throw UsageError("expected true, false, yes, no, on, off, 1 or 0, found '" + word + "'", subject);
}

}  // namespace

std::string with_dashes(std::string_view name) {
  std::string result(name);
  std::ranges::replace(result, '_', '-');
  return result;
}

OptionMatch find_option(const CommandSpec& command, std::string_view name) {
  const std::string wanted = with_dashes(name);
  for (const Option& option : command.options) {
    if (!option.key.empty()) continue;
    if (option.name == wanted) return {&option, nullptr};
    for (const OptionAlias& alias : option.aliases) {
      if (alias.name == wanted) return {&option, &alias};
    }
  }
  return {};
}

const Option* find_key(const std::vector<const Option*>& rows, std::string_view key) {
  const std::string wanted = with_dashes(key);
  const Option* found = nullptr;
  for (const Option* row : rows)
    if (!row->key.empty() && (row->key == wanted || row->name == wanted)) return row;
  for (const Option* row : rows) {
    if (!row->key.ends_with("." + wanted)) continue;
    if (found != nullptr)
      throw UsageError("names several settings", "`set` " + wanted, found->key + " or " + row->key);
    found = row;
  }
  return found;
}

const Option* find_key(const CommandSpec& command, std::string_view key) {
  std::vector<const Option*> rows;
  for (const Option& option : command.options) rows.push_back(&option);
  return find_key(rows, key);
}

const Option* find_option(const CommandSpec& command, const Field& field) {
  const auto found = std::ranges::find(command.options, field, &Option::field);
  return found == command.options.end() ? nullptr : &*found;
}

std::vector<std::string> subcommand_names(const CommandSpec& command) {
  std::vector<std::string> names;
  for (const Subcommand& subcommand : command.subcommands) names.push_back(subcommand.name);
  return names;
}

bool taken_by(const Option& option, std::string_view subcommand) {
  return option.subcommands.empty() ||
         std::ranges::find(option.subcommands, subcommand) != option.subcommands.end();
}

CommandSpec subcommand_spec(const CommandSpec& command, std::string_view name) {
  const auto found = std::ranges::find(command.subcommands, name, &Subcommand::name);
  if (found == command.subcommands.end())
    throw Error(ErrorCode::internal, "no such subcommand", std::string(name));
  CommandSpec spec = command;
  spec.name += " " + found->name;
  spec.aliases.clear();
  spec.subcommands.clear();
  if (!found->summary.empty()) spec.summary = found->summary;
  spec.positionals = found->positionals;
  std::erase_if(spec.options, [&](const Option& option) { return !taken_by(option, name); });
  for (Option& option : spec.options) option.subcommands.clear();
  std::erase_if(spec.common,
                [&](const Field& field) { return find_option(spec, field) == nullptr; });
  std::erase_if(spec.examples, [&](const std::string& example) {
    return !example.starts_with("hydrascope " + spec.name);
  });
  return spec;
}

CommandSpec shown(CommandSpec command) {
  std::erase_if(command.options,
                [](const Option& option) { return option.hidden || !option.key.empty(); });
  return command;
}

std::vector<std::string> option_spellings(const CommandSpec& command) {
  std::vector<std::string> result;
  for (const Option& option : command.options) {
    if (!option.key.empty()) continue;
    result.push_back(option.name);
    for (const OptionAlias& alias : option.aliases) result.push_back(alias.name);
  }
  return result;
}

std::string_view brief(const Option& option) {
  return std::string_view(option.help).substr(0, option.help.find("; "));
}

std::vector<std::string> split_values(const Option& option, std::string_view word) {
  if (option.values <= 1 && !option.comma_list) return {std::string(word)};
  std::vector<std::string> result;
  for (std::size_t begin = 0; begin <= word.size();) {
    const std::size_t comma = std::min(word.find(',', begin), word.size());
    std::string_view piece = word.substr(begin, comma - begin);
    while (!piece.empty() && piece.front() == ' ') piece.remove_prefix(1);
    while (!piece.empty() && piece.back() == ' ') piece.remove_suffix(1);
    result.emplace_back(piece);
    begin = comma + 1;
  }
  return result;
}

std::vector<std::string> check_values(const Option& option, std::vector<std::string> words,
                                      const std::string& subject) {
  for (std::string& word : words) {
    // The system's calls would take such a word for a shorter one.
    if (word.find('\0') != std::string::npos) {
      throw UsageError("the value holds a NUL character", subject);
    }
    if (word.empty()) throw UsageError("the value is empty", subject);
    if (const auto synonym = option.synonyms.find(word); synonym != option.synonyms.end())
      word = synonym->second;
    check_choice(option, word, subject);
    switch (option.kind) {
      case ValueKind::text: break;
      case ValueKind::flag: word = to_flag(word, subject); break;
      case ValueKind::integer: {
        const std::int64_t value = to_integer(word, subject);
        check_range(option, static_cast<double>(value), word, subject);
        break;
      }
      case ValueKind::number: check_range(option, to_number(word, subject), word, subject); break;
    }
  }
  if (option.values > 1 && words.size() != static_cast<std::size_t>(option.values)) {
    throw UsageError("expected " + std::to_string(option.values) + " values, found " +
                         std::to_string(words.size()) + " (" + join_words(words, ", ", ", ") + ")",
                     subject);
  }
  return words;
}

std::int64_t to_integer(std::string_view word, std::string_view subject) {
  return to_arithmetic<std::int64_t>(word, subject, "an integer");
}

double to_number(std::string_view word, std::string_view subject) {
  return to_arithmetic<double>(word, subject, "a number");
}

std::vector<Option> join(std::initializer_list<std::vector<Option>> groups) {
  std::vector<Option> result;
  std::set<std::string> names;
  const auto declare = [&names](const std::string& name) {
    if (!names.insert(name).second) {
      throw Error(ErrorCode::internal, "an option is declared twice", name);
    }
  };
  for (const std::vector<Option>& group : groups) {
    for (const Option& option : group) {
      declare("--" + option.name);
      for (const OptionAlias& alias : option.aliases) declare("--" + alias.name);
      if (option.short_name != '\0') declare(std::string("-") + option.short_name);
      result.push_back(option);
    }
  }
  return result;
}

}  // namespace hydrascope::app
