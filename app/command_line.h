// The answers of the tables of options by themselves: help, version, completion, --dump-config, and
// what is wrong with a command line. The front and the engine both begin with it.
#pragma once

#include "app/options/options.h"

#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace hydrascope::app {

/// Argv without the program's name, the command first: "help" without words, "version" for
/// "--version", "classify" before a picture.
std::vector<std::string> with_command(std::vector<std::string> words);

/// A command that is to be run, with the options of the words alone (`parse_words`).
struct AskedCommand {
  const CommandSpec* command = nullptr;
  ParsedOptions options;
};

/// Prints what the tables know and returns the exit code, or parses the words of the command that is
/// to be run. Throws Error(invalid_argument) for a wrong command line, whose configuration file it
/// leaves alone: that may be a pipe.
std::variant<int, AskedCommand> answer_or_parse(std::span<const std::string> words);

/// The exit code of `run`. Says on stderr what went wrong, a standard output that cannot be written
/// included. `words` are argv without the program's name.
int guarded(std::span<const std::string> words, const std::function<int()>& run);

}  // namespace hydrascope::app
