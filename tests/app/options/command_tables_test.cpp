// The tables of all commands: what help and completion show of them, and what they leave out.
#include "app/command.h"
#include "app/evaluate/evaluate_options.h"
#include "app/options/option_table.h"
#include "app/options/options.h"
#include "app/specs/training.h"
#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
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
  EXPECT_THAT(help_text(commands[0]), HasSubstr("seen"));
  EXPECT_THAT(help_text(commands[0]), Not(HasSubstr("earlier")));
  const std::vector<std::string> words{"--earlier", "6"};
  const ParsedOptions given = parse(commands[0], words);
  EXPECT_EQ(given.named("earlier").text(), "6");
  EXPECT_THAT(given.dump_config(), HasSubstr("\"earlier\": \"6\""));
  const ParsedOptions not_given = parse(commands[0], {});
  EXPECT_EQ(not_given.named("earlier").text(), "5");
  EXPECT_THAT(not_given.dump_config(), Not(HasSubstr("earlier")));
}

TEST(CommandTables, NoTwoNamesOfAnOptionHaveTwoValues) {
  std::size_t seen = 0;
  for (const CommandSpec& command : command_specs()) {
    for (const Option& option : command.options) {
      if (option.repeatable) continue;
      std::vector<std::string> values = option.choices;
      if (option.kind == ValueKind::flag) values = {"true", "false"};
      if (values.empty()) values = {"1", "2"};
      for (const OptionAlias& alias : option.aliases) {
        const std::string value = alias.implied.empty() ? values[0] : alias.implied;
        const std::string other = value == values[0] ? values[1] : values[0];
        const std::vector<std::string> words{
            "--" + alias.name + (alias.implied.empty() ? "=" + value : ""),
            "--" + option.name + "=" + other};
        EXPECT_ERROR(parse(command, words), invalid_argument, "two values",
                     option_named(alias.name).c_str(), option_named(option.name).c_str());
        ++seen;
      }
    }
  }
  EXPECT_GT(seen, 20U);
}

TEST(CommandTables, StayWithinTheBudget) {
  std::ifstream file(std::filesystem::path(HYDRASCOPE_SOURCE_DIR) / "CONTRIBUTING.md");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto allowed = [&](const std::string& what) {
    const std::string row = "\n| " + what + " | ";
    return std::stoul(text.substr(text.find(row) + row.size()));
  };
  std::set<std::string> names;
  std::size_t places = 0;
  for (const CommandSpec& command : command_specs())
    for (const Option& option : shown(command).options) {
      names.insert(option.name);
      ++places;
    }
  EXPECT_LE(names.size(), allowed("options"));
  EXPECT_LE(places, allowed("options x commands"));
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

TEST(CommandTables, AreFoundByEveryName) {
  for (const CommandSpec& command : command_specs()) {
    std::vector<std::string> names = command.aliases;
    names.push_back(command.name);
    for (const std::string& name : names) {
      ASSERT_NE(find_command(name), nullptr) << name;
      EXPECT_EQ(find_command(name)->name, command.name);
      EXPECT_EQ(find_command(name)->options.size(), command.options.size());
    }
  }
  for (const char* none : {"", " ", "classify predict", "classif"})
    EXPECT_EQ(find_command(none), nullptr) << none;
}

TEST(CommandTables, HelpSaysWhatACommandDoes) {
  const auto brief_help = [](const char* command) {
    return brief_help_text(*find_command(command));
  };
  for (const char* command : {"evaluate", "compare", "faithfulness"})
    EXPECT_EQ(find_option(*find_command(command), "precision").option->default_value, "float32")
        << command;
  EXPECT_THAT(brief_help("convert"), HasSubstr("attention to convert to, as hydra:last4"));
  EXPECT_THAT(brief_help("convert"), HasSubstr("hydrascope convert in.pth out.safetensors"));
  EXPECT_THAT(brief_help("completion"), HasSubstr("source <(hydrascope completion zsh)"));
  EXPECT_THAT(brief_help("classify"), HasSubstr("--output FILE|-"));
  for (const CommandSpec& command : command_specs())
    EXPECT_THAT(help_text(command), Not(HasSubstr(" \n"))) << command.name;
}

/// Names, in order, of the options and settings that satisfy `wanted`.
std::string names_where(std::string_view command, const std::function<bool(Role)>& wanted) {
  std::vector<std::string> names;
  for (const Option& option : find_command(command)->options)
    if (wanted(option.role)) names.push_back(option.name);
  std::ranges::sort(names);
  return join_words(names, " ", " ");
}

TEST(Roles, EveryOptionHasOne) {
  for (const CommandSpec& command : command_specs())
    for (const Option& option : command.options)
      EXPECT_NE(option.role, Role::undecided) << command.name << " --" << option.name;
}

TEST(Fields, EveryOptionFillsOneOfItsOwn) {
  for (const CommandSpec& command : command_specs()) {
    std::vector<Field> taken;
    for (const Option& option : command.options) {
      EXPECT_TRUE(option.field) << command.name << " --" << option.name;
      EXPECT_THAT(taken, Not(::testing::Contains(option.field)))
          << command.name << " --" << option.name;
      taken.push_back(option.field);
    }
  }
}

/// A new option of these commands belongs into one of the lists, or into no recipe.
TEST(Roles, MakeRecipes) {
  const auto kept = [](Role role) { return is_kept_by_a_run(role); };
  const auto free = [](Role role) { return is_recorded(role) && !is_kept_by_a_run(role); };
  EXPECT_EQ(
      names_where("train", kept),
      "aa amp-dtype attn attn-opt clip-grad coarse-exits cutmix distillation-alpha "
      "distillation-tau "
      "distillation-type drop-path exif exit-rule exit-threshold fit freeze gate-center gate-scale "
      "halting held-out hflip layer-decay lora-alpha lora-rank lora-targets lr max-pixels min-lr "
      "mixup model-ema "
      "model-ema-decay momentum num-classes opt "
      "opt-betas overview ponder pos-embed pos-interp rel-pos rel-pos-opt reprob reset-head "
      "residual scale scenes sched seed share-blocks sizes smoothing step-embed teacher "
      "use-ema warmup-epochs weight-decay");
  EXPECT_EQ(
      names_where("train", free),
      "batch-size checkpoint crop-mode crop-pct epochs grad-accum-steps grad-"
      "checkpointing img-size interpolation labels mean mlp-chunks model processes std store");
  EXPECT_EQ(
      names_where("convert", kept),
      "aa adapter amp-dtype attn attn-opt balance-sources blocks-weight clip-grad coarse-exits "
      "cutmix epochs "
      "evaluations exif exit-rule exit-threshold exits fit held-out hflip input kl-weight "
      "layer-decay lora-alpha lora-rank lora-targets lr lr-exits lr-sizes max-pixels "
      "mechanism-lr-scale min-lr mixup model-ema "
      "model-ema-decay momentum "
      "num-classes opt opt-betas overview pos-embed pos-interp rel-pos rel-pos-opt "
      "reprob reset-head scale scenes seed sizes start steps-exits steps-maps steps-"
      "outputs steps-sizes target train-from use-ema weight-decay");
  EXPECT_EQ(names_where("convert", free),
            "arch batch-size batch-size-maps crop-mode crop-pct grad-accum-steps img-size "
            "interpolation mean processes std");
  EXPECT_EQ(role_of_setting("convert", "lr-sizes"), Role::task);
  EXPECT_EQ(role_of_setting("convert", "batch-size-maps"), Role::step);
}

// timm's train.py; docs name what differs: --set sched=linear and constant, which it lacks.
TEST(CommandTables, TrainsDefaultsAreTimmsUnlessTheDocumentsSayOtherwise) {
  const ParsedOptions defaults = parse(*find_command("train"), {});
  for (const auto& [name, value] : {std::pair("hflip", 0.5),
                                    {"reprob", 0.0},
                                    {"mixup", 0.0},
                                    {"cutmix", 0.0},
                                    {"smoothing", 0.1},
                                    {"drop-path", 0.0},
                                    {"model-ema-decay", 0.9998}})
    EXPECT_EQ(defaults.named(name).number(), value) << name;
  EXPECT_EQ(defaults.named("scale").numbers(), (std::vector<double>{0.08, 1}));
  EXPECT_EQ(defaults.named("sched").text(), "cosine");
}

TEST(CommandTables, SettingsOfRunsAreChecked) {
  const auto set = [](const char* command, const std::vector<std::string>& words) {
    std::vector<std::string> arguments;
    for (const std::string& word : words) arguments.push_back("--set=" + word);
    return parse(*find_command(command), arguments);
  };
  const ParsedOptions options =
      set("convert", {"sizes.lr=1e-5", "run.log_interval=2", "sizes.lr=2e-5", "maps.steps=7"});
  EXPECT_EQ(options.named("lr-sizes").number(), 2e-5);
  EXPECT_EQ(options.named("log-interval").integer(), 2);
  EXPECT_EQ(options.named("steps-maps").integer(), 7);
  EXPECT_ERROR(set("convert", {"size.lr=1"}), invalid_argument, "no such setting",
               "`set` size.lr=1", "did you mean sizes.lr?");
  EXPECT_ERROR(set("train", {"sizes.lr=1"}), invalid_argument, "sizes.lr is a setting of convert",
               "`set` sizes.lr=1");
  EXPECT_ERROR(set("classify", {"steps=1"}), invalid_argument, "of faithfulness and convert");
  EXPECT_ERROR(set("convert", {"run.patience=1"}), invalid_argument, "no such setting",
               "`set` evaluations=N");
  EXPECT_ERROR(set("convert", {"steps=1"}), invalid_argument, "names several settings");
  const hydrascope::testing::TemporaryFolder folder;
  const std::string config = folder.write("steps.json", R"({"steps": 1})").string();
  EXPECT_ERROR(parse(*find_command("convert"), std::vector<std::string>{"-c", config}),
               invalid_argument, "names several settings", "steps", "sizes.steps or exits.steps");
  EXPECT_ERROR(set("convert", {"sizes.lr"}), invalid_argument, "KEY=VALUE");
  EXPECT_ERROR(set("convert", {"sizes.lr=much"}), invalid_argument, "a number", "`set` sizes.lr");
  EXPECT_ERROR(set("convert", {"last.evaluations=0"}), invalid_argument, "at least 1");
  EXPECT_ERROR(parse(*find_command("classify"), std::vector<std::string>{"--overview", "on"}),
               invalid_argument, "unknown option", "`set` model.overview=VALUE");
  for (const CommandSpec& command : command_specs()) {
    for (const Option& option : command.options) {
      if (!option.default_value.empty()) {
        EXPECT_NO_THROW(check_values(option, split_values(option, option.default_value), "default"))
            << option.name;
      }
      if (option.key.empty()) continue;
      EXPECT_EQ(find_key(command, option.key), &option) << command.name;
      EXPECT_EQ(option.short_name, '\0') << option.key;
    }
  }
}

// CHANGELOG says what went.
TEST(CommandTables, WordsOfEarlierVersionsSayWhatToUse) {
  for (const auto& [command, words, hint] :
       {std::tuple<const char*, std::vector<std::string>, const char*>{
            "classify", {"--strict"}, "`set` on-error=fail"},
        {"evaluate", {"--no-progress"}, "`set` progress=off"},
        {"classify", {"-j8"}, "`set` workers=N"},
        {"classify", {"-vj", "8"}, "`set` workers=N"},
        {"classify", {"--print_transform"}, "models info MODEL"},
        {"classify", {"--views", "tiles"}, "`views` zoom"},
        {"classify", {"--views", "look"}, "`views` zoom"},
        {"classify", {"--set", "look-model=a.pth"}, "`model` MODEL"},
        {"convert", {"--report", "a.json"}, "`format` json or html"},
        {"embed", {"--resume"}, "goes on by itself"},
        {"benchmark", {"--compare", "a", "b"}, "`baseline`"},
        {"train", {"--set", "sched=step"}, "`set` sched=cosine"}})
    EXPECT_ERROR(parse(*find_command(command), words), invalid_argument, hint);
  EXPECT_EQ(instead_of("inspect"), "hydrascope models info FILE");
  EXPECT_EQ(instead_of("--report"), "");
}

TEST(CommandTables, OneWordForOneThing) {
  const auto option_of = [](const char* command, const char* spelling) {
    const CommandSpec* spec = find_command(command);
    const OptionMatch match = find_option(*spec, spelling);
    return match ? match.option->name : std::string();
  };
  for (const char* command : {"visualize", "faithfulness"})
    EXPECT_EQ(option_of(command, "method"), "method") << command;
  // -m is the model everywhere.
  for (const CommandSpec& command : command_specs()) {
    for (const Option& option : command.options)
      EXPECT_EQ(option.short_name == 'm', option.name == "model") << command.name;
  }
  for (const char* command : {"convert", "train"}) {
    EXPECT_EQ(find_option(*find_command(command), "held-out").option->placeholder, "N|SHARE")
        << command;
  }
}

}  // namespace command_tables_test
}  // namespace hydrascope::app
