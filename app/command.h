// A command of the program: its table of options (app/specs/NAME.cpp), which the front and the
// engines hold, and the function that runs it (app/NAME.cpp), which one engine alone holds.
#pragma once

#include "app/run/exit_code.h"
#include "app/specs/specs.h"

#include <span>
#include <string_view>

namespace hydrascope::app {

/// Asked by the front of the engine, no command: it ends at once, with 0.
inline constexpr std::string_view kDoNothing = "do-nothing";

struct CommandRun {
  std::string_view name;
  int (*run)(const ParsedOptions&);
};
/// The commands of this engine: engine_commands.cpp, trainer_commands.cpp.
extern const std::span<const CommandRun> command_runs;

// The function that runs a command, in app/NAME.cpp: returns the exit code; errors leave as exceptions.
int run_classify(const ParsedOptions& options);
int run_visualize(const ParsedOptions& options);
int run_embed(const ParsedOptions& options);
int run_search(const ParsedOptions& options);
int run_serve(const ParsedOptions& options);
int run_benchmark(const ParsedOptions& options);
int run_evaluate(const ParsedOptions& options);
int run_compare(const ParsedOptions& options);  // in evaluate.cpp, as the next two
int run_faithfulness(const ParsedOptions& options);
int run_diagnose(const ParsedOptions& options);
int run_convert(const ParsedOptions& options);
int run_train(const ParsedOptions& options);
int run_models(const ParsedOptions& options);
int run_doctor(const ParsedOptions& options);

}  // namespace hydrascope::app
