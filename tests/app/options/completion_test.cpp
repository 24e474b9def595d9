// The words of assets/completion/ are those of the tables. tests/contract/front.case tries them in shells.
#include "app/command.h"
#include "app/options/option_table.h"
#include "app/options/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace hydrascope::app {
namespace completion_test {

/// "transform.fit=pad|transform.fit=crop|run.max-pixels="
std::string words_of_keys(const CommandSpec& command) {
  std::string words;
  for (const Option& option : command.options) {
    if (option.key.empty() || option.hidden) continue;
    std::vector<std::string> values = option.choices;
    if (values.empty()) values = {""};
    for (const std::string& value : values)
      words += (words.empty() ? "" : "|") + option.key + "=" + value;
  }
  return words;
}

/// " --native --topk= --format=text|json -m=@ --model=@", files being "@".
std::string words_of(const CommandSpec& command) {
  std::string words;
  for (const Subcommand& one : command.subcommands) words += " " + one.name;
  if (command.subcommands.empty() && !command.positionals.empty()) words += " @";
  for (const Option& option : shown(command).options) {
    std::string value = "=" + join_words(option.choices, "|", "|");
    if (option.kind == ValueKind::flag) value = "";
    if (option.completes_files) value = "=@";
    if (option.field == Field(&SettingsRequest::words)) value += words_of_keys(command);
    if (option.short_name != '\0') words += std::string(" -") + option.short_name + value;
    words += " --" + option.name + value;
    for (const OptionAlias& alias : option.aliases)
      if (!alias.implied.empty()) words += " --" + alias.name;
  }
  return words + "\n";
}

/// "classify,predict: ..." and "models list: ...", a line each.
std::string table() {
  std::string lines;
  for (const CommandSpec& command : command_specs()) {
    std::string names = command.name;
    for (const std::string& alias : command.aliases) names += "," + alias;
    lines += names + ":" + words_of(command);
    for (const Subcommand& one : command.subcommands)
      lines += command.name + " " + one.name + ":" + words_of(subcommand_spec(command, one.name));
  }
  return lines;
}

TEST(Completion, OffersWhatTheTablesHoldAndNothingElse) {
  const std::string wanted = "'\n" + table() + "'\n";
  for (const char* shell : {"bash", "zsh", "fish"}) {
    std::ifstream file(std::filesystem::path(HYDRASCOPE_SOURCE_DIR) / "assets/completion" / shell);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    EXPECT_NE(text.find(wanted), text.npos) << shell << " lacks" << wanted;
  }
}

}  // namespace completion_test
}  // namespace hydrascope::app
