// The list of commands, and those that only show what the tables say.
#include "app/build_info.h"
#include "app/command.h"
#include "kernels/error.h"

#include <algorithm>
#include <iostream>

namespace hydrascope::app {
namespace {

int run_version(const ParsedOptions&) {
  std::cout << "hydrascope " << kVersion << " (" << kCommit << ", " << kBuildType << ", "
            << kCompiler << ")\n";
  return kExitOk;
}

int run_completion(const ParsedOptions& options) {
  if (options.positionals().size() != 1) {
    throw Error(ErrorCode::invalid_argument, "name a shell", "completion",
                "hydrascope completion bash|zsh|fish");
  }
  std::cout << completion_script(options.positionals().front(), command_specs());
  return kExitOk;
}

int run_help(const ParsedOptions& options) {
  if (options.flag("man")) {
    std::cout << man_page(command_specs(), kVersion);
    return kExitOk;
  }
  if (options.positionals().empty()) {
    std::cout << overview_text(command_specs());
    return kExitOk;
  }
  const std::string& word = options.positionals().front();
  const Command* command = find_command(word);
  if (command == nullptr) {
    std::vector<std::string> names;
    for (const CommandSpec& spec : command_specs()) names.push_back(spec.name);
    const std::string near = nearest(word, names);
    throw Error(ErrorCode::invalid_argument, "unknown command '" + word + "'", "help",
                near.empty() ? "`hydrascope help` lists them" : "did you mean " + near + "?");
  }
  std::cout << help_text(command->spec);
  return kExitOk;
}

}  // namespace

Command completion_command() {
  CommandSpec spec;
  spec.name = "completion";
  spec.summary = "completion script for bash, zsh or fish";
  spec.positionals = "";
  spec.subcommands = {"bash", "zsh", "fish"};
  spec.options = general_options();
  spec.examples = {"source <(hydrascope completion bash)"};
  return {std::move(spec), run_completion};
}

Command version_command() {
  CommandSpec spec;
  spec.name = "version";
  spec.summary = "version, commit and compiler of this build";
  spec.options = general_options();
  return {std::move(spec), run_version};
}

Command help_command() {
  CommandSpec spec;
  spec.name = "help";
  spec.summary = "this list, or the options of one command";
  spec.positionals = "[COMMAND]";
  spec.options =
      join({{{.name = "man", .kind = ValueKind::flag, .help = "print the manual page (troff)"}},
            general_options()});
  spec.examples = {"hydrascope help classify", "hydrascope help --man | man -l -"};
  return {std::move(spec), run_help};
}

std::span<const Command> commands() {
  static const std::vector<Command> all{
      classify_command(), visualize_command(),  benchmark_command(), evaluate_command(),
      convert_command(),  train_command(),      models_command(),    inspect_command(),
      doctor_command(),   completion_command(), version_command(),   help_command(),
  };
  return all;
}

const std::vector<CommandSpec>& command_specs() {
  static const std::vector<CommandSpec> specs = [] {
    std::vector<CommandSpec> result;
    for (const Command& command : commands()) result.push_back(command.spec);
    return result;
  }();
  return specs;
}

const Command* find_command(std::string_view name) {
  for (const Command& command : commands()) {
    if (command.spec.name == name ||
        std::ranges::find(command.spec.aliases, name) != command.spec.aliases.end())
      return &command;
  }
  return nullptr;
}

}  // namespace hydrascope::app
