// The list of commands, and the tables of those that show things of this program and of files.
#include "app/options/option_builders.h"
#include "app/options/option_table.h"
#include "app/specs/requests.h"
#include "app/specs/specs.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
  spec.options = help_options();
  spec.examples = {"source <(hydrascope completion bash)"};
  return spec;
}

CommandSpec version_spec() {
  CommandSpec spec;
  spec.name = "version";
  spec.summary = "version, commit and compiler of this build";
  spec.group = "This program";
  spec.options = help_options();
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

/// A table is made when its command is asked for: naming one photograph needs one of them.
struct Command {
  std::string_view names;  ///< the name and its aliases, between blanks
  CommandSpec (*make)();
};
constexpr std::array kCommands{
    Command{" classify predict ", classify_spec},
    Command{" visualize attn ", visualize_spec},
    Command{" embed ", embed_spec},
    Command{" search ", search_spec},
    Command{" serve server ", serve_spec},
    Command{" benchmark bench ", benchmark_spec},
    Command{" evaluate eval validate ", evaluate_spec},
    Command{" compare ", compare_spec},
    Command{" faithfulness ", faithfulness_spec},
    Command{" diagnose ", diagnose_spec},
    Command{" convert distill ", convert_spec},
    Command{" train ", train_spec},
    Command{" models ", models_spec},
    Command{" doctor ", doctor_spec},
    Command{" completion ", completion_spec},
    Command{" version ", version_spec},
    Command{" help ", help_spec},
};

}  // namespace

const std::vector<CommandSpec>& command_specs() {
  static const std::vector<CommandSpec> all = [] {
    std::vector<CommandSpec> specs;
    for (const Command& command : kCommands) specs.push_back(with_settings(command.make()));
    return specs;
  }();
  return all;
}

const CommandSpec* find_command(std::string_view name) {
  static std::mutex mutex;
  static std::array<std::optional<CommandSpec>, kCommands.size()> made;
  if (name.find(' ') != name.npos) return nullptr;
  const std::string word = " " + std::string(name) + " ";
  for (std::size_t i = 0; i < kCommands.size(); ++i) {
    if (kCommands[i].names.find(word) == std::string_view::npos) continue;
    const std::scoped_lock lock(mutex);
    if (!made[i]) made[i] = with_settings(kCommands[i].make());
    return &*made[i];
  }
  return nullptr;
}

std::vector<std::string> commands_with_setting(std::string_view key) {
  std::vector<std::string> names;
  for (const CommandSpec& command : command_specs())
    if (std::ranges::any_of(command.options, [&](const Option& option) {
          return !option.key.empty() && (option.key == key || option.name == key ||
                                         option.key.ends_with("." + std::string(key)));
        }))
      names.push_back(command.name);
  return names;
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
