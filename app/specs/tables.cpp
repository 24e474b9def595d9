// The list of commands, and the tables of those that show things of this program and of files.
#include "app/options/option_builders.h"
#include "app/specs/requests.h"
#include "app/specs/specs.h"

#include <algorithm>

namespace hydrascope::app {

namespace {

CommandSpec completion_spec() {
  CommandSpec spec;
  spec.name = "completion";
  spec.summary = "completion script for bash, zsh or fish";
  spec.group = "This program";
  spec.subcommands = {{"bash", "in ~/.bashrc: source <(hydrascope completion bash)"},
                      {"zsh", "in ~/.zshrc: source <(hydrascope completion zsh)"},
                      {"fish", "in config.fish: hydrascope completion fish | source"}};
  spec.options = general_options();
  spec.examples = {"source <(hydrascope completion bash)"};
  return spec;
}

CommandSpec version_spec() {
  CommandSpec spec;
  spec.name = "version";
  spec.summary = "version, commit and compiler of this build";
  spec.group = "This program";
  spec.options = general_options();
  return spec;
}

CommandSpec help_spec() {
  CommandSpec spec;
  spec.name = "help";
  spec.summary = "this list, or every option of a command";
  spec.group = "This program";
  spec.positionals = "[COMMAND [SUBCOMMAND]]";
  spec.options = general_options();
  spec.examples = {"hydrascope help classify"};
  return spec;
}

}  // namespace

const std::vector<CommandSpec>& command_specs() {
  static const std::vector<CommandSpec> all = [] {
    std::vector<CommandSpec> specs{
        classify_spec(),  visualize_spec(), embed_spec(),   search_spec(),       serve_spec(),
        benchmark_spec(), evaluate_spec(),  compare_spec(), faithfulness_spec(), diagnose_spec(),
        convert_spec(),   train_spec(),     models_spec(),  doctor_spec(),       completion_spec(),
        version_spec(),   help_spec(),
    };
    for (CommandSpec& spec : specs) spec = with_settings(std::move(spec));
    return specs;
  }();
  return all;
}

const CommandSpec* find_command(std::string_view name) {
  const auto found = std::ranges::find_if(command_specs(), [&](const CommandSpec& command) {
    return command.name == name ||
           std::ranges::find(command.aliases, name) != command.aliases.end();
  });
  return found == command_specs().end() ? nullptr : &*found;
}

CommandSpec doctor_spec() {
  CommandSpec spec;
  spec.name = "doctor";
  spec.summary = "report the abilities of this build and this machine";
  spec.group = "This program";
  spec.options =
      join({{flag("self-test",
                  "compare answers in float32, bfloat16 and int8 with stored ones; the bundled "
                  "pictures are classified on the CPU, exit code 4 if answers differ too much",
                  into(&DoctorRequest::self_test), role(Role::report))},
            output_options(),
            general_options()});
  spec.common = {&DoctorRequest::self_test, &OutputRequest::file, &OutputRequest::format};
  spec.examples = {"hydrascope doctor", "hydrascope doctor --self-test",
                   "hydrascope doctor --format json"};
  return spec;
}

}  // namespace hydrascope::app
