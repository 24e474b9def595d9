// The command line as a table of options reads it: numbers are consumed whole, an option that lacks
// its value does not take the next option for it, what is unknown is told with the nearest name.
#include "app/options/options.h"

#include "app/options/option_table.h"
#include "app/run/usage_error.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

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
  const std::string near = nearest(with_dashes(name), option_spellings(command));
  throw UsageError("unknown option " + written, command.name,
                   near.empty() ? "names that begin with '-' go after --; hydrascope help " +
                                      command.name + " lists the options"
                                : "did you mean --" + near + "?");
}

struct CommandLine {
  std::vector<Setting> settings;
  std::vector<std::string> positionals;
};

class CommandLineReader {
 public:
  CommandLineReader(const CommandSpec& command, std::span<const std::string> arguments)
      : command_(command), arguments_(arguments) {}

  CommandLine run() {
    while (next_ < arguments_.size()) {
      const std::string& word = arguments_[next_++];
      if (word == "--") {
        const auto rest = arguments_.subspan(next_);
        line_.positionals.insert(line_.positionals.end(), rest.begin(), rest.end());
        break;
      }
      if (word.starts_with("--")) {
        read_long(word);
      } else if (word.size() > 1 && word.front() == '-') {
        read_short(word);
      } else {
        line_.positionals.push_back(word);
      }
    }
    for (Setting& setting : line_.settings) {
      const Option& option = *setting.option;
      setting.words = check_values(option, split_values(option, setting.words.front()),
                                   "--" + setting.spelling);
    }
    return std::move(line_);
  }

 private:
  void read_long(const std::string& word) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string written = word.substr(0, equals);
    const std::string name = with_dashes(word.substr(2, equals - 2));
    const OptionMatch match = find_option(command_, name);
    if (!match) throw_unknown(command_, written, name);
    const bool implies = match.alias != nullptr && !match.alias->implied.empty();

    if (equals < word.size()) {
      if (implies) {
        throw UsageError(written + " takes no value", written,
                         "it stands for --" + match.option->name + " " + match.alias->implied);
      }
      add(*match.option, name, word.substr(equals + 1));
    } else if (match.stands_alone()) {
      add(*match.option, name, implies ? match.alias->implied : "true");
    } else {
      add(*match.option, name, take_value(*match.option, written));
    }
  }

  /// "-b 8", "-b8", "-b=8", "-vq", "-vb8".
  void read_short(const std::string& word) {
    const std::string name = with_dashes(word.substr(1, word.find('=') - 1));
    if (name.size() > 1 && find_option(command_, name)) {
      // "-model x" would otherwise be the model "odel".
      throw UsageError("unknown option -" + name, command_.name, "did you mean --" + name + "?");
    }
    for (std::size_t i = 1; i < word.size(); ++i) {
      const std::string written = std::string("-") + word[i];
      const OptionMatch match = find_short_option(command_, word[i]);
      if (!match) throw_unknown(command_, i == 1 ? word : written + " in " + word, name);

      const Option& option = *match.option;
      std::string rest = word.substr(i + 1);
      const bool joined = rest.starts_with('=');
      if (match.stands_alone() && !joined) {
        add(option, option.name, "true");
        continue;
      }
      add(option, option.name, rest.empty() ? take_value(option, written) : rest.substr(joined));
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
      throw UsageError(written + " needs a value, found " + found, written,
                       "a value that begins with '-' is written --" + option.name + "=" + found);
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

  /// Checked when all is read: what is unknown is said first.
  void add(const Option& option, const std::string& spelling, std::string value) {
    line_.settings.push_back({&option, spelling, {std::move(value)}});
  }

  const CommandSpec& command_;
  std::span<const std::string> arguments_;
  std::size_t next_ = 0;
  CommandLine line_;
};

void check_positionals(const CommandSpec& command, std::span<const std::string> positionals) {
  if (!command.positionals.empty() || positionals.empty()) return;
  throw UsageError("expected no further argument, found '" + positionals.front() + "'",
                   command.name);
}

/// The first positional, what follows it and the options that go with it.
void check_subcommand(const CommandSpec& command, const CommandLine& line) {
  if (line.positionals.empty()) return;
  const std::string& name = line.positionals.front();
  const std::vector<std::string> names = subcommand_names(command);
  if (std::ranges::find(names, name) == names.end()) {
    const std::string near = nearest(name, names);
    throw UsageError("expected " + join_words(names, ", ", " or ") + ", found '" + name + "'",
                     command.name, near.empty() ? "" : "did you mean " + near + "?");
  }
  check_positionals(subcommand_spec(command, name), std::span(line.positionals).subspan(1));
  for (const Setting& setting : line.settings) {
    if (taken_by(*setting.option, name)) continue;
    std::vector<std::string> others;
    for (const std::string& other : setting.option->subcommands)
      others.push_back(command.name + " " + other);
    throw UsageError("takes no --" + setting.spelling, command.name + " " + name,
                     join_words(others, ", ", " and ") + (others.size() == 1 ? " does" : " do"));
  }
}

}  // namespace

ParsedOptions parse(const CommandSpec& command, std::span<const std::string> arguments,
                    ConfigFile config) {
  ParsedOptions parsed;
  for (const Option& option : command.options) {
    ParsedOptions::Entry entry{.option = option, .values = {}, .spelling = option.name};
    if (!option.default_value.empty()) entry.values = split_values(option, option.default_value);
    if (!parsed.entries_.emplace(option.name, std::move(entry)).second) {
      throw Error(ErrorCode::internal, "an option is declared twice", "--" + option.name);
    }
  }
  const auto apply = [&parsed](Setting& setting, Source source) {
    ParsedOptions::Entry& entry = parsed.entries_.at(setting.option->name);
    // A repeatable option adds to what the same source gave and replaces what a weaker one did.
    if (!setting.option->repeatable || entry.source != source) entry.values.clear();
    std::ranges::move(setting.words, std::back_inserter(entry.values));
    entry.source = source;
    entry.spelling = setting.spelling;
  };

  CommandLine line = CommandLineReader(command, arguments).run();
  for (const Setting& setting : line.settings) {
    if (setting.option->name == "config") parsed.config_file_ = setting.words.back();
  }
  if (config == ConfigFile::read && !parsed.config_file_.empty()) {
    for (Setting& setting : read_config(command, parsed.config_file_)) {
      apply(setting, Source::config_file);
    }
  }
  for (Setting& setting : line.settings) apply(setting, Source::command_line);

  if (command.subcommands.empty()) {
    check_positionals(command, line.positionals);
  } else {
    check_subcommand(command, line);
  }
  parsed.positionals_ = std::move(line.positionals);
  return parsed;
}

const ParsedOptions::Entry& ParsedOptions::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    throw Error(ErrorCode::internal, "the command declares no such option",
                "--" + std::string(name));
  }
  return found->second;
}

bool ParsedOptions::takes_one_value(std::string_view name) const {
  return declares(name) && !holds_several(entry(name).option);
}

bool ParsedOptions::given(std::string_view name) const {
  return entry(name).source != Source::default_value;
}

Source ParsedOptions::source(std::string_view name) const { return entry(name).source; }

std::string ParsedOptions::origin(std::string_view name) const {
  const Entry& found = entry(name);
  return found.source == Source::config_file
             ? std::filesystem::path(config_file_).filename().string()
             : "--" + found.spelling;
}

bool ParsedOptions::flag(std::string_view name) const {
  const Entry& found = entry(name);
  if (found.option.kind != ValueKind::flag) {
    throw Error(ErrorCode::internal, "the option is no flag", "--" + found.option.name);
  }
  return !found.values.empty() && found.values.back() == "true";
}

const std::string& ParsedOptions::text(std::string_view name) const {
  static const std::string kUnset;
  const Entry& found = entry(name);
  if (holds_several(found.option)) {
    throw Error(ErrorCode::internal, "the option may hold several values: ask texts()",
                "--" + found.option.name);
  }
  return found.values.empty() ? kUnset : found.values.back();
}

std::int64_t ParsedOptions::integer(std::string_view name) const {
  const std::string& word = text(name);
  if (word.empty()) {
    throw Error(ErrorCode::internal, "the option has no value: ask given() first",
                "--" + std::string(name));
  }
  return to_integer(word, origin(name));
}

double ParsedOptions::number(std::string_view name) const {
  const std::string& word = text(name);
  if (word.empty()) {
    throw Error(ErrorCode::internal, "the option has no value: ask given() first",
                "--" + std::string(name));
  }
  return to_number(word, origin(name));
}

const std::vector<std::string>& ParsedOptions::texts(std::string_view name) const {
  return entry(name).values;
}

std::vector<std::int64_t> ParsedOptions::integers(std::string_view name) const {
  std::vector<std::int64_t> result;
  for (const std::string& word : texts(name)) result.push_back(to_integer(word, origin(name)));
  return result;
}

std::vector<double> ParsedOptions::numbers(std::string_view name) const {
  std::vector<double> result;
  for (const std::string& word : texts(name)) result.push_back(to_number(word, origin(name)));
  return result;
}

}  // namespace hydrascope::app
