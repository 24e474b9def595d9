// A command of the program: its options as a table, and what runs it. commands.cpp lists them all;
// main, help and completion enumerate that list.
#pragma once

#include "app/options.h"

#include <span>

namespace hydrascope::app {

/// Exit codes of the program (besides 128 + signal).
enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitSomeInputsFailed = 3,
  kExitCheckFailed = 4,
};

struct Command {
  CommandSpec spec;
  /// Returns the exit code; errors leave as exceptions.
  int (*run)(const ParsedOptions&);
};

std::span<const Command> commands();
/// The tables alone, for help and completion.
const std::vector<CommandSpec>& command_specs();
/// By name or alias; nullptr when there is none.
const Command* find_command(std::string_view name);

// One function a command, each in the file of its name.
Command classify_command();
Command visualize_command();
Command benchmark_command();
Command evaluate_command();
Command models_command();
Command inspect_command();
Command convert_command();
Command train_command();
Command doctor_command();
// In commands.cpp: they only show what the tables say.
Command completion_command();
Command version_command();
Command help_command();

}  // namespace hydrascope::app
