// A command of the program: its table of options (app/specs/NAME.cpp), which the front and the
// engine both hold, and what runs it (app/NAME.cpp), which the engine alone holds.
#pragma once

#include "app/options/options.h"

#include <string_view>
#include <vector>

namespace hydrascope::app {

/// Exit codes of the program (besides 128 + signal).
enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitSomeInputsFailed = 3,
  kExitCheckFailed = 4,
};

/// Asked by the front of the engine, no command: it ends at once, with 0.
inline constexpr std::string_view kDoNothing = "do-nothing";

/// All tables, in the order of the overview.
const std::vector<CommandSpec>& command_specs();
/// By name or alias; nullptr when there is none.
const CommandSpec* find_command(std::string_view name);

// One table per command, in app/specs/NAME.cpp.
CommandSpec classify_spec();
CommandSpec visualize_spec();
CommandSpec serve_spec();
CommandSpec benchmark_spec();
CommandSpec evaluate_spec();
CommandSpec compare_spec();
CommandSpec faithfulness_spec();
CommandSpec diagnose_spec();
CommandSpec convert_spec();
CommandSpec train_spec();
CommandSpec models_spec();
CommandSpec inspect_spec();
CommandSpec doctor_spec();

// What runs a command, in app/NAME.cpp: returns the exit code; errors leave as exceptions.
int run_classify(const ParsedOptions& options);
int run_visualize(const ParsedOptions& options);
int run_serve(const ParsedOptions& options);
int run_benchmark(const ParsedOptions& options);
int run_evaluate(const ParsedOptions& options);
int run_compare(const ParsedOptions& options);  // in evaluate.cpp, as the next two
int run_faithfulness(const ParsedOptions& options);
int run_diagnose(const ParsedOptions& options);
int run_convert(const ParsedOptions& options);
int run_train(const ParsedOptions& options);
int run_models(const ParsedOptions& options);
int run_inspect(const ParsedOptions& options);
int run_doctor(const ParsedOptions& options);

}  // namespace hydrascope::app
