// The tables of options of all commands.
#pragma once

#include "app/options/options.h"

#include <string_view>
#include <vector>

namespace hydrascope::app {

/// The program with the code of training, which runs the commands that need it.
inline constexpr const char* kTrainer = "hydrascope-trainer";

/// All tables, in the order of the overview.
const std::vector<CommandSpec>& command_specs();
/// By name or alias; nullptr when there is none.
const CommandSpec* find_command(std::string_view name);

// One table per command, in app/specs/NAME.cpp.
CommandSpec classify_spec();
CommandSpec embed_spec();  // in classify.cpp, as the next one
CommandSpec search_spec();
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
CommandSpec doctor_spec();

}  // namespace hydrascope::app
