// A command's table of options, looked up and enforced: which option a spelling means and whether
// the words that follow are values it takes. Shared by the command line (options.cpp) and
// configuration files (options_config.cpp), so that both accept and refuse the same.
#pragma once

#include "app/options/options.h"
#include "app/run/words.h"

#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

/// The meaning of a spelling; `alias` is set when it is not the option's own name.
struct OptionMatch {
  const Option* option = nullptr;
  const OptionAlias* alias = nullptr;

  explicit operator bool() const { return option != nullptr; }
  /// The value that the spelling stands for; "" where it takes one.
  [[nodiscard]] std::string_view implied() const {
    return alias == nullptr ? std::string_view() : alias->implied;
  }
};

/// One option set once, its words checked.
struct Setting {
  const Option* option = nullptr;
  std::string spelling;  ///< without dashes: "imgsz"
  std::vector<std::string> words;
};

/// "img_size" -> "img-size".
std::string with_dashes(std::string_view name);

/// Looks among names and aliases of options, '_' meaning '-'. The pointers live as long as `command`.
OptionMatch find_option(const CommandSpec& command, std::string_view name);
/// The row with that key or name, else the only one whose key ends so behind a dot; nullptr where there is
/// none. Throws Error(invalid_argument) where several keys end so.
const Option* find_key(const std::vector<const Option*>& rows, std::string_view key);
const Option* find_key(const CommandSpec& command, std::string_view key);
/// The option that fills `field`; nullptr where there is none.
const Option* find_option(const CommandSpec& command, const Field& field);

/// {"list", "info"}.
std::vector<std::string> subcommand_names(const CommandSpec& command);
/// "models list" as a command of its own: with the options and examples of that subcommand.
CommandSpec subcommand_spec(const CommandSpec& command, std::string_view name);
/// Whether a subcommand takes `option`; any does where the option names none.
bool taken_by(const Option& option, std::string_view subcommand);

/// The command as help and completion show it: without its hidden options.
CommandSpec shown(CommandSpec command);

/// All long spellings, names and aliases.
std::vector<std::string> option_spellings(const CommandSpec& command);

/// The help up to its first "; ".
std::string_view brief(const Option& option);

/// One word of the command line -> values: split at commas (blanks around them dropped) where the
/// option declares a list.
std::vector<std::string> split_values(const Option& option, std::string_view word);

/// Checks kind, range, choices and count; returns the words, those of flags as "true" or "false".
/// Throws Error(invalid_argument) with `subject`, the nearest choice as hint.
std::vector<std::string> check_values(const Option& option, std::vector<std::string> words,
                                      const std::string& subject);

/// The hint for words of earlier versions, "inspect", "--strict", "--views tiles", "--set patience"; "" for others.
std::string instead_of(const std::string& words, const std::string& command = "");
/// Commands that have a setting of that key or name, whatever its section (specs/tables.cpp, which lists the commands).
std::vector<std::string> commands_with_setting(std::string_view key);

/// The settings of a configuration file, in its order (options_config.cpp).
std::vector<Setting> read_config(const CommandSpec& command, const std::string& file);

}  // namespace hydrascope::app
