// The tables of all commands: what help and completion show of them, and what they leave out.
#include "app/command.h"
#include "app/evaluate/evaluate_options.h"
#include "app/options/option_table.h"
#include "app/options/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace hydrascope::app {
namespace command_tables_test {

using ::testing::HasSubstr;
using ::testing::Not;

CommandSpec with_a_hidden_option() {
  return {
      .name = "x",
      .summary = "does x",
      .options = {{.name = "seen", .help = "what everybody sees"},
                  {.name = "earlier", .help = "nothing", .default_value = "5", .hidden = true}}};
}

TEST(HiddenOptions, WorkWithoutBeingShown) {
  const std::vector<CommandSpec> commands{with_a_hidden_option()};
  const std::vector<std::string> typed{"x", "--"};
  for (const std::string& text : {help_text(commands[0]), man_page(commands, "1"),
                                  join_words(completions(commands, typed), "", "")}) {
    EXPECT_THAT(text, HasSubstr("seen"));
    EXPECT_THAT(text, Not(HasSubstr("earlier")));
  }
  const std::vector<std::string> words{"--earlier", "6"};
  const ParsedOptions given = parse(commands[0], words);
  EXPECT_EQ(given.text("earlier"), "6");
  EXPECT_THAT(given.dump_config(), HasSubstr("\"earlier\": \"6\""));
  const ParsedOptions not_given = parse(commands[0], {});
  EXPECT_EQ(not_given.text("earlier"), "5");
  EXPECT_THAT(not_given.dump_config(), Not(HasSubstr("earlier")));
}

TEST(CommandTables, HelpOfEveryOptionStandsAlone) {
  // A line of 100 columns has 70 for the description; zsh and fish show it beside the name.
  constexpr std::size_t kMost = 80;
  for (const CommandSpec& whole : command_specs()) {
    const CommandSpec command = shown(whole);
    for (const Option& option : command.options) {
      const std::string where = command.name + " --" + option.name + ": " + option.help;
      EXPECT_FALSE(option.help.empty()) << where;
      for (const char* start :
           {"its ", "their ", "the same as", "the same in", "of ", "by more", "where it "})
        EXPECT_FALSE(option.help.starts_with(start)) << where;
      EXPECT_FALSE(option.help.ends_with('.')) << where;
      EXPECT_LE(brief(option).size(), kMost) << where;
    }
  }
}

TEST(CommandTables, EvaluateTakesWhatItOnceShowed) {
  const std::vector<CommandSpec>& all = command_specs();
  const CommandSpec& evaluate = *std::ranges::find(all, "evaluate", &CommandSpec::name);
  const CommandSpec seen = shown(evaluate);
  for (const char* name : {"against", "against-attn", "against-attn-opt", "against-precision",
                           "faithfulness", "maps", "method", "steps", "substrate", "class", "layer",
                           "diagnostics", "diagnostics-images", "label-type"}) {
    EXPECT_TRUE(find_option(evaluate, name)) << name;
    EXPECT_FALSE(find_option(seen, name)) << name;
  }
  EXPECT_EQ(find_option(evaluate, "faithfulness").option->name, "measure");
}

TEST(CommandTables, HelpSaysWhatACommandDoes) {
  const auto brief_help = [](const char* command) {
    return brief_help_text(*find_command(command));
  };
  for (const char* command : {"evaluate", "compare", "faithfulness"})
    EXPECT_THAT(brief(*find_option(*find_command(command), "precision").option),
                HasSubstr("auto being float32 on the CPU"))
        << command;
  EXPECT_THAT(brief_help("convert"), HasSubstr("attention to convert to, as hydra:last4"));
  EXPECT_THAT(brief_help("convert"), HasSubstr("hydrascope convert in.pth out.safetensors"));
  EXPECT_THAT(brief_help("completion"), HasSubstr("source <(hydrascope completion zsh)"));
  EXPECT_THAT(brief_help("classify"), HasSubstr("--output FILE|-"));
  for (const CommandSpec& command : command_specs())
    EXPECT_THAT(help_text(command), Not(HasSubstr(" \n"))) << command.name;
}

// timm's train.py; docs and headers name what differs: --color-jitter (0.4 there), --warmup-lr
// (1e-5), and --sched linear and constant, which it lacks.
TEST(CommandTables, TrainsDefaultsAreTimmsUnlessTheDocumentsSayOtherwise) {
  const ParsedOptions defaults = parse(*find_command("train"), {});
  for (const auto& [name, value] : {std::pair("hflip", 0.5),
                                    {"vflip", 0.0},
                                    {"reprob", 0.0},
                                    {"recount", 1.0},
                                    {"mixup", 0.0},
                                    {"cutmix", 0.0},
                                    {"mixup-prob", 1.0},
                                    {"mixup-switch-prob", 0.5},
                                    {"smoothing", 0.1},
                                    {"drop-path", 0.0},
                                    {"model-ema-decay", 0.9998},
                                    {"decay-rate", 0.1},
                                    {"decay-epochs", 90.0},
                                    {"color-jitter", 0.0},
                                    {"warmup-lr", 1e-6}})
    EXPECT_EQ(defaults.number(name), value) << name;
  EXPECT_EQ(defaults.numbers("scale"), (std::vector<double>{0.08, 1}));
  EXPECT_EQ(defaults.numbers("ratio"), (std::vector<double>{3.0 / 4, 4.0 / 3}));
  EXPECT_EQ(defaults.text("train-interpolation"), "random");
  EXPECT_EQ(defaults.text("remode"), "pixel");
  EXPECT_EQ(defaults.text("sched"), "cosine");
}

TEST(CommandTables, OneWordForOneThing) {
  const auto option_of = [](const char* command, const char* spelling) {
    const CommandSpec* spec = find_command(command);
    const OptionMatch match = find_option(*spec, spelling);
    return match ? match.option->name : std::string();
  };
  for (const char* command : {"visualize", "faithfulness"})
    EXPECT_EQ(option_of(command, "method"), "method") << command;
  EXPECT_EQ(option_of("faithfulness", "maps"), "method");
  for (const char* command : {"convert", "models"}) {
    EXPECT_EQ(option_of(command, "precision"), "save-dtype") << command;
    EXPECT_EQ(option_of(command, "fp16"), "save-dtype") << command;
  }
  // -m is the model everywhere.
  for (const CommandSpec& command : command_specs()) {
    if (const OptionMatch match = find_short_option(command, 'm')) {
      EXPECT_EQ(match.option->name, "model") << command.name;
    }
  }
  for (const char* command : {"convert", "train"}) {
    EXPECT_EQ(find_option(*find_command(command), "held-out").option->placeholder, "N|SHARE")
        << command;
  }
}

}  // namespace command_tables_test
}  // namespace hydrascope::app
