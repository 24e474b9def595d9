// The command line read through cxxopts 3.1.1, whose habits are not what users expect:
//
//   cxxopts                                            here
//   splits vector values at commas, file names too     every option is one string, split by the
//                                                      table (option_table.cpp)
//   takes "0.5abc" as 0.5, "1,5" as 1                  numbers are consumed whole
//   no space-separated lists                           joined by commas before parsing
//   "--img-size --native" takes "--native" as value    an option that lacks its value is an error
//   "-b=8" and "-o/tmp/x" fail                         short options are spelled out before parsing
//   '_' and '-' differ, nothing like "did you mean"    names are looked up before parsing
//   matches by std::regex: a newline in a value        compiled without regex
//     fails, 200 kB of it overflow the stack
//
// The part that cxxopts does, which sees "--name", "--name=value" and positionals after "--" only:
// taking these apart, implied values, the order of what was given.
#include "app/options/options.h"

#include "app/options/option_table.h"
#include "app/run/usage_error.h"
#include "kernels/error.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#define CXXOPTS_NO_REGEX true
#include <cxxopts.hpp>

namespace hydrascope::app {
namespace {

bool is_number(std::string_view word) {
  try {
    to_number(word, {});
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// "-x" and "--x" are options; "-", "-5" and "-.5,1" are values.
bool looks_like_option(std::string_view word) {
  return word.size() > 1 && word.front() == '-' && !is_number(word.substr(0, word.find(',')));
}

[[noreturn]] void throw_unknown(const CommandSpec& command, const std::string& written,
                                std::string_view name) {
  if (const Option* row = find_key(command, name))
    throw UsageError("unknown option --" + std::string(name), command.name,
                     "`set` " + row->key + "=VALUE");
  const bool is_short = written.starts_with('-') && !written.starts_with("--");
  const std::string word = is_short ? written.substr(0, 2) : "--" + std::string(name);
  if (const std::string hint = instead_of(word, command.name); !hint.empty())
    throw UsageError("unknown option " + written, command.name, hint);
  const std::string near = nearest(with_dashes(name), option_spellings(command));
  const std::string list = "hydrascope help " + command.name + " lists the options";
  const bool may_be_name = !written.starts_with("--");
  throw UsageError("unknown option " + written, command.name,
                   !near.empty() ? "did you mean " + option_named(near) + "?"
                   : may_be_name ? "names that begin with '-' go after --; " + list
                                 : list);
}

/// Spells out what users write in the few forms that cxxopts reads without surprises.
class Rewriter {
 public:
  Rewriter(const CommandSpec& command, std::span<const std::string> arguments)
      : command_(command), arguments_(arguments) {}

  /// The arguments for cxxopts: options first, then "--", then the positionals.
  std::vector<std::string> run() {
    std::vector<std::string> positionals;
    for (; next_ < arguments_.size();) {
      const std::string& word = arguments_[next_++];
      if (word == "--") {
        positionals.insert(positionals.end(), arguments_.begin() + static_cast<long>(next_),
                           arguments_.end());
        break;
      }
      if (word.starts_with("--")) {
        rewrite_long(word);
      } else if (word.size() > 1 && word.front() == '-') {
        rewrite_short(word);
      } else {
        positionals.push_back(word);
      }
    }
    options_.emplace_back("--");
    options_.insert(options_.end(), positionals.begin(), positionals.end());
    return std::move(options_);
  }

 private:
  void rewrite_long(const std::string& word) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string written = option_named(word.substr(2, equals - 2));
    const std::string name = with_dashes(word.substr(2, equals - 2));
    const OptionMatch match = find_option(command_, name);
    if (!match) throw_unknown(command_, written, name);

    if (equals < word.size()) {
      if (const std::string implied(match.implied()); !implied.empty())
        throw UsageError(written + " takes no value", written,
                         "it stands for " + option_named(match.option->name) + " " + implied);
      emit(name, word.substr(equals + 1));
    } else if (match.option->kind == ValueKind::flag || !match.implied().empty()) {
      options_.push_back("--" + name);
    } else {
      emit(name, take_value(*match.option, written));
    }
  }

  /// "-b 8", "-b8", "-b=8", "-vq", "-vb8".
  void rewrite_short(const std::string& word) {
    const std::string name = with_dashes(word.substr(1, word.find('=') - 1));
    if (name.size() > 1 && find_option(command_, name)) {
      // "-model x" would otherwise be the model "odel".
      throw UsageError("unknown option -" + name, command_.name,
                       "did you mean " + option_named(name) + "?");
    }
    for (std::size_t i = 1; i < word.size(); ++i) {
      const std::string written = std::string("-") + word[i];
      const auto found = std::ranges::find(command_.options, word[i], &Option::short_name);
      if (word[i] == '\0' || found == command_.options.end())
        throw_unknown(command_, i == 1 ? word : written + " in " + word, name);

      std::string rest = word.substr(i + 1);
      const bool joined = rest.starts_with('=');
      if (found->kind == ValueKind::flag && !joined) {
        options_.push_back("--" + found->name);
        continue;
      }
      if (rest.empty()) {
        rest = take_value(*found, written);
      } else if (joined) {
        rest.erase(0, 1);
      }
      emit(found->name, rest);
      return;
    }
  }

  /// The words that belong to `option`, joined by commas where it takes several.
  std::string take_value(const Option& option, const std::string& written) {
    if (next_ == arguments_.size() || arguments_[next_] == "--") {
      throw UsageError(written + " needs a value", written);
    }
    if (looks_like_option(arguments_[next_])) {
      const std::string& found = arguments_[next_];
      throw UsageError(
          written + " needs a value, found " + found, written,
          "a value that begins with '-' is written " + option_named(option.name) + "=" + found);
    }
    std::string value = arguments_[next_++];
    for (auto count = split_values(option, value).size();
         count < static_cast<std::size_t>(option.values) && next_ < arguments_.size() &&
         !looks_like_option(arguments_[next_]);) {
      const std::string& word = arguments_[next_++];
      count += split_values(option, word).size();
      value += "," + word;
    }
    return value;
  }

  void emit(const std::string& name, const std::string& value) {
    options_.push_back("--" + name + "=" + value);
  }

  const CommandSpec& command_;
  std::span<const std::string> arguments_;
  std::size_t next_ = 0;
  std::vector<std::string> options_;
};

cxxopts::Options declare(const CommandSpec& command) {
  cxxopts::Options options(command.name);
  const auto add = [&options](const std::string& spelling, const std::string& implied) {
    auto value = cxxopts::value<std::string>();
    if (!implied.empty()) value->implicit_value(implied);
    options.add_options()(spelling, "", value);
  };
  for (const Option& option : command.options) {
    if (!option.key.empty()) continue;
    // Each spelling is an option of its own, so that the result tells which one was used.
    const std::string implied = option.kind == ValueKind::flag ? "true" : "";
    add(option.name, implied);
    for (const OptionAlias& alias : option.aliases) {
      add(alias.name, alias.implied.empty() ? implied : alias.implied);
    }
  }
  return options;
}

struct CommandLine {
  std::vector<Setting> settings;
  std::vector<std::string> positionals;
};

CommandLine read_command_line(const CommandSpec& command, std::span<const std::string> arguments) {
  const std::vector<std::string> rewritten = Rewriter(command, arguments).run();
  std::vector<const char*> argv = {command.name.c_str()};
  for (const std::string& argument : rewritten) argv.push_back(argument.c_str());

  CommandLine result;
  try {
    const cxxopts::ParseResult parsed =
        declare(command).parse(static_cast<int>(argv.size()), argv.data());
    for (const cxxopts::KeyValue& given : parsed.arguments()) {
      const OptionMatch match = find_option(command, given.key());
      result.settings.push_back(
          {match.option, given.key(),
           check_values(*match.option, split_values(*match.option, given.value()),
                        option_named(given.key()))});
    }
    result.positionals = parsed.unmatched();
  } catch (const cxxopts::exceptions::specification& error) {
    throw Error(ErrorCode::internal, error.what(), command.name);
  } catch (const cxxopts::exceptions::exception& error) {
    throw UsageError(error.what(), command.name);
  }
  return result;
}

void check_positionals(const CommandSpec& command, std::span<const std::string> positionals) {
  if (!command.positionals.empty() || positionals.empty()) return;
  throw UsageError("expected no further argument, found '" + positionals.front() + "'",
                   command.name);
}

/// The first positional, what follows it and the options that go with it.
void check_subcommand(const CommandSpec& command, const ParsedOptions& options,
                      const std::vector<std::string>& positionals) {
  if (positionals.empty()) return;
  const std::string& name = positionals.front();
  const std::vector<std::string> names = subcommand_names(command);
  if (std::ranges::find(names, name) == names.end()) {
    const std::string near = nearest(name, names);
    throw UsageError("expected " + join_words(names, ", ", " or ") + ", found '" + name + "'",
                     command.name,
                     near.empty() ? instead_of(name, command.name) : "did you mean " + near + "?");
  }
  check_positionals(subcommand_spec(command, name), std::span(positionals).subspan(1));
  for (const auto& [key, entry] : options.entries()) {
    if (!entry.given() || taken_by(entry.option, name)) continue;
    std::vector<std::string> others;
    for (const std::string& other : entry.option.subcommands)
      others.push_back(command.name + " " + other);
    throw UsageError("takes no " + entry.origin, command.name + " " + name,
                     join_words(others, ", ", " and ") + (others.size() == 1 ? " does" : " do"));
  }
}

}  // namespace

void ParsedOptions::add_key(const std::string& word, Source source) {
  const std::size_t equals = std::min(word.find('='), word.size());
  const std::string key = with_dashes(word.substr(0, equals));
  std::vector<const Option*> rows;
  for (const auto& [name, entry] : entries_) rows.push_back(&entry.option);
  const Option* const row = find_key(rows, key);
  if (row == nullptr) {
    if (const auto others = commands_with_setting(key); !others.empty())
      throw UsageError(key + " is a setting of " + join_words(others, ", ", " and "),
                       "`set` " + word);
    const std::string hint = instead_of("--set " + key.substr(key.rfind('.') + 1));
    std::vector<std::string> keys;
    for (const Option* each : rows) {
      if (each->key.empty()) continue;
      keys.push_back(each->key);
      keys.push_back(each->key.substr(each->key.find('.') + 1));
    }
    const std::string near = nearest(key, keys);
    throw UsageError("no such setting", "`set` " + word,
                     !hint.empty()  ? hint
                     : near.empty() ? "`hydrascope models info set` lists settings"
                                    : "did you mean " + near + "?");
  }
  if (equals == word.size()) throw UsageError("expected KEY=VALUE", "`set` " + word);
  const std::string origin = key == row->name ? option_named(key) : "`set` " + key;
  add({row, key, check_values(*row, split_values(*row, word.substr(equals + 1)), origin)}, source,
      origin);
}

void ParsedOptions::add(Setting setting, Source source, const std::string& origin) {
  if (setting.option->field == Field(&SettingsRequest::words)) {
    for (const std::string& word : setting.words) add_key(word, source);
    return;
  }
  GivenOption& entry = entries_.at(setting.option->name);
  const auto refuse = [&] {
    throw UsageError("one option has two values, " + join_words(entry.values, ",", ",") + " and " +
                         join_words(setting.words, ",", ","),
                     entry.origin + " with " + origin, "leave one of them out");
  };
  if (entry.source > source) {
    const bool are_rivals =
        std::ranges::any_of(entry.option.aliases, [&](const OptionAlias& alias) {
          const std::string rival = option_named(alias.name);
          return alias.is_rival &&
                 (entry.origin == rival) != (option_named(setting.spelling) == rival);
        });
    if (entry.source == Source::command_line && are_rivals && entry.values != setting.words)
      refuse();
    return;
  }
  const bool has_two_names =
      entry.source == source && !setting.option->repeatable && entry.origin != origin;
  if (has_two_names && entry.values != setting.words) refuse();
  // A repeatable option adds to what the same source gave and replaces what a weaker one did.
  if (!setting.option->repeatable || entry.source != source) entry.values.clear();
  std::ranges::move(setting.words, std::back_inserter(entry.values));
  entry.source = source;
  entry.origin = has_two_names ? entry.origin + " with " + origin : origin;
}

ParsedOptions parse_words(const CommandSpec& command, std::span<const std::string> arguments) {
  // A table that is no command's has keys without the option that sets them.
  if (const bool has_keys = std::ranges::any_of(
          command.options, [](const Option& option) { return !option.key.empty(); });
      has_keys && !find_option(command, "set"))
    return parse_words(with_settings(command), arguments);
  ParsedOptions parsed;
  for (const Option& option : command.options) {
    GivenOption entry{.option = option, .origin = option_named(option.name)};
    if (!option.default_value.empty()) entry.values = split_values(option, option.default_value);
    if (!parsed.entries_.emplace(option.name, std::move(entry)).second) {
      throw Error(ErrorCode::internal, "an option is declared twice", "--" + option.name);
    }
  }
  CommandLine line = read_command_line(command, arguments);
  for (const Setting& setting : line.settings)
    parsed.add(setting, Source::command_line, option_named(setting.spelling));
  if (command.subcommands.empty()) {
    check_positionals(command, line.positionals);
  } else {
    check_subcommand(command, parsed, line.positionals);
  }
  parsed.positionals_ = std::move(line.positionals);
  return parsed;
}

ParsedOptions with_config(const CommandSpec& command, ParsedOptions words) {
  const GivenOption* config = words.find(&GeneralRequest::config);
  if (config == nullptr || config->text().empty()) return words;
  const std::string file = config->text();
  for (const Setting& setting : read_config(command, file))
    words.add(setting, Source::config_file, std::filesystem::path(file).filename().string());
  return words;
}

ParsedOptions parse(const CommandSpec& command, std::span<const std::string> arguments) {
  return with_config(command, parse_words(command, arguments));
}

const GivenOption* ParsedOptions::find(const Field& field) const {
  const auto found = std::ranges::find_if(
      entries_, [&](const auto& entry) { return entry.second.option.field == field; });
  return found == entries_.end() ? nullptr : &found->second;
}

const GivenOption& ParsedOptions::operator[](const Field& field) const {
  if (const GivenOption* found = find(field)) return *found;
  throw Error(ErrorCode::internal, "the command has no option for the field");
}

bool ParsedOptions::given(const Field& field) const {
  const GivenOption* found = find(field);
  return found != nullptr && found->given();
}

bool ParsedOptions::is(const Field& field, std::string_view word) const {
  const GivenOption* found = find(field);
  return found != nullptr && found->is(word);
}

void ParsedOptions::fill_fields(const std::type_info& request, void* address) const {
  for (const auto& [name, entry] : entries_)
    if (entry.option.field.is_of(request) && entry.option.fill) entry.option.fill(address, entry);
}

const GivenOption& ParsedOptions::named(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    throw Error(ErrorCode::internal, "the command declares no such option",
                "--" + std::string(name));
  }
  return found->second;
}

bool GivenOption::flag() const {
  if (option.kind != ValueKind::flag)
    throw Error(ErrorCode::internal, "the option is no flag", "--" + option.name);
  return !values.empty() && values.back() == "true";
}

const std::string& GivenOption::text() const {
  static const std::string kUnset;
  if (!holds_one())
    throw Error(ErrorCode::internal, "the option may hold several values: ask `values`",
                "--" + option.name);
  return values.empty() ? kUnset : values.back();
}

namespace {

const std::string& set_text(const GivenOption& given) {
  if (given.text().empty()) {
    throw Error(ErrorCode::internal, "the option has no value: ask given() first",
                "--" + given.option.name);
  }
  return given.text();
}

}  // namespace

std::int64_t GivenOption::integer() const { return to_integer(set_text(*this), origin); }

double GivenOption::number() const { return to_number(set_text(*this), origin); }

std::vector<std::int64_t> GivenOption::integers() const {
  std::vector<std::int64_t> result;
  for (const std::string& word : values) result.push_back(to_integer(word, origin));
  return result;
}

std::vector<double> GivenOption::numbers() const {
  std::vector<double> result;
  for (const std::string& word : values) result.push_back(to_number(word, origin));
  return result;
}

}  // namespace hydrascope::app
