// Help and overview.
#include "app/command.h"
#include "app/options/option_table.h"
#include "app/options/options.h"
#include "app/options/requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace hydrascope::app {
namespace help_test {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

CommandSpec classify() {
  return {.name = "classify",
          .aliases = {"predict"},
          .summary = "top-k classes of images",
          .positionals = "[INPUT...]",
          .options = join({model_options(), runtime_options(), general_options()}),
          .examples = {"hydrascope classify photo.jpg", "hydrascope classify -m 'a b' *.png"}};
}

CommandSpec models() {
  return {.name = "models",
          .summary = "about models",
          .options = {{.name = "seed",
                       .help = "a seed",
                       .subcommands = {"info"},
                       .field = &RunRequest::seed},
                      {.name = "format", .help = "a form", .field = &OutputRequest::format}},
          .examples = {"hydrascope models list", "hydrascope models info x"},
          .subcommands = {{"list", "what is there"}, {"info", "what one is", "[NAME]"}},
          .common = {&RunRequest::seed, &OutputRequest::format}};
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) result.push_back(line);
  return result;
}

TEST(HelpText, BeginsWithUsageAndSummary) {
  const std::vector<std::string> text = lines(help_text(classify()));
  ASSERT_GT(text.size(), 4U);
  EXPECT_EQ(text[0], "usage: hydrascope classify [OPTIONS] [INPUT...]");
  EXPECT_EQ(text[2], "top-k classes of images");
  EXPECT_EQ(text[3], "Also: hydrascope predict");
}

TEST(HelpText, ShowsSubcommandsInTheUsage) {
  EXPECT_THAT(help_text(models()), StartsWith("usage: hydrascope models list|info [OPTIONS]\n"));
  EXPECT_THAT(help_text(models()),
              HasSubstr("\nSubcommands:\n  list                        what is there\n"
                        "  info [NAME]                 what one is\n"));
  EXPECT_THAT(help_text(models()), HasSubstr("--seed TEXT             a seed (of info)\n"));
}

TEST(HelpText, GroupsOptionsUnderHeadings) {
  const std::string text = help_text(classify());
  const std::size_t model = text.find("\nModel:\n");
  const std::size_t runtime = text.find("\nRuntime:\n");
  const std::size_t general = text.find("\nAs `hydrascope help help` explains:\n  -c, --config");
  ASSERT_NE(general, std::string::npos);
  EXPECT_LT(model, text.find("--attn SPEC"));
  EXPECT_LT(text.find("--attn SPEC"), runtime);
  EXPECT_LT(runtime, general);
  EXPECT_THAT(help_text({.name = "x", .summary = "", .options = {{.name = "y"}}}),
              HasSubstr("\nOptions:\n      --y TEXT"));
}

TEST(HelpText, ShowsNamesChoicesDefaultsAndAliases) {
  const std::string text = help_text(classify(), 200);
  EXPECT_THAT(text, HasSubstr("  -m, --model MODEL           name, file or folder of the model"));
  EXPECT_THAT(text, HasSubstr("checkpoint; also --arch)"));
  EXPECT_THAT(text, HasSubstr("      --precision FORMAT      number format"));
  EXPECT_THAT(help_text(classify(), 1000),
              HasSubstr("(auto, float32, tf32, float16, bfloat16, int8; default: auto; --fp16 "
                        "= float16; --bf16 = bfloat16)\n"));
  EXPECT_THAT(text, HasSubstr("(default: chosen by size)"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("overview")));
  EXPECT_THAT(help_text(with_settings(classify()), 1000),
              HasSubstr("      --set KEY=VALUE         setting of the model"));
}

TEST(HelpText, NamesTheGeneralOptionsAlone) {
  CommandSpec command = classify();
  EXPECT_THAT(help_text(command, 1000),
              HasSubstr("\nAs `hydrascope help help` explains:\n  -c, --config FILE.json, "
                        "--dump-config, -v, --verbose, -q, --quiet, --help\n"));
  EXPECT_THAT(help_text(command), Not(HasSubstr("read options from a JSON file")));
  command.name = "help";
  EXPECT_THAT(help_text(command), HasSubstr("read options from a JSON file"));
}

TEST(HelpText, EndsWithExamples) {
  EXPECT_THAT(help_text(classify()),
              ::testing::EndsWith("\nExamples:\n  hydrascope classify photo.jpg\n"
                                  "  hydrascope classify -m 'a b' *.png\n"));
  EXPECT_THAT(help_text({.name = "x", .summary = ""}), Not(HasSubstr("Examples")));
}

TEST(HelpText, IsWrapped) {
  for (const int columns : {60, 80, 100}) {
    for (const std::string& line : lines(help_text(classify(), columns))) {
      const bool one_long_label = line.find("  --") != std::string::npos || line.starts_with("  -");
      if (!one_long_label) {
        EXPECT_LE(line.size(), static_cast<std::size_t>(columns)) << line;
      }
      EXPECT_FALSE(line.ends_with(' ')) << line;
    }
  }
}

TEST(HelpText, OfASubcommandHasWhatThatTakes) {
  const std::string list = help_text(subcommand_spec(models(), "list"));
  EXPECT_THAT(list, StartsWith("usage: hydrascope models list [OPTIONS]\n\nwhat is there\n"));
  EXPECT_THAT(list, Not(HasSubstr("--seed")));
  EXPECT_THAT(list, HasSubstr("--format"));
  EXPECT_THAT(list, ::testing::EndsWith("\nExamples:\n  hydrascope models list\n"));
  const std::string info = help_text(subcommand_spec(models(), "info"));
  EXPECT_THAT(info, StartsWith("usage: hydrascope models info [OPTIONS] [NAME]\n"));
  EXPECT_THAT(info, HasSubstr("--seed TEXT             a seed\n"));
  EXPECT_THAT(brief_help_text(subcommand_spec(models(), "list")), Not(HasSubstr("--seed")));
}

TEST(BriefHelp, ShowsTheCommonOptionsInTheirOrder) {
  CommandSpec command = classify();
  command.common = {&RunRequest::precision, &ModelRequest::word, &image::Size::width};
  command.options.push_back(
      {.name = "shape", .help = "what it is; and more", .field = &image::Size::width});
  command.examples.assign(6, "hydrascope classify a.jpg");
  EXPECT_EQ(brief_help_text(command),
            "usage: hydrascope classify [OPTIONS] [INPUT...]\n"
            "\n"
            "top-k classes of images\n"
            "\n"
            "Common options:\n"
            "      --precision FORMAT      number format of the computation (auto, float32, tf32, "
            "float16,\n"
            "                              bfloat16, int8; default: auto)\n"
            "  -m, --model MODEL           name, file or folder of the model (default: the bundled "
            "checkpoint)\n"
            "      --shape TEXT            what it is\n"
            "\n"
            "Examples:\n"
            "  hydrascope classify a.jpg\n"
            "  hydrascope classify a.jpg\n"
            "  hydrascope classify a.jpg\n"
            "  hydrascope classify a.jpg\n"
            "\n"
            "All options: hydrascope classify --help\n");
}

TEST(BriefHelp, IsShortForEveryCommand) {
  for (const CommandSpec& command : command_specs()) {
    const std::vector<std::string> text = lines(brief_help_text(command));
    EXPECT_LE(text.size(), 28U) << command.name;
    for (const Field& field : command.common)
      EXPECT_NE(find_option(shown(command), field), nullptr) << command.name;
    EXPECT_FALSE(command.group.empty()) << command.name;
  }
}

TEST(HelpText, SurvivesAnyWidth) {
  const std::string narrow = help_text(classify(), -5);
  EXPECT_EQ(narrow, help_text(classify(), 0));
  EXPECT_THAT(narrow, HasSubstr("--precision"));
}

TEST(OverviewText, ListsCommandsInGroupsWithAliasesAndSummaries) {
  std::vector<CommandSpec> commands = {
      classify(), {.name = "evaluate", .aliases = {"eval", "validate"}, .summary = "top-1/top-5"}};
  commands[0].group = "Look";
  commands[1].group = "Measure";
  const std::string text = overview_text(commands);
  EXPECT_THAT(text, HasSubstr("\nusage: hydrascope COMMAND [OPTIONS] [INPUT...]\n"));
  EXPECT_THAT(text, HasSubstr("\nLook:\n  classify (predict)          top-k classes of images\n"));
  EXPECT_THAT(text, HasSubstr("\nMeasure:\n  evaluate (eval, validate)   top-1/top-5\n"));
  EXPECT_THAT(text, HasSubstr("hydrascope COMMAND -h"));
  for (const std::string& line : lines(overview_text(command_specs(), 80)))
    EXPECT_LE(line.size(), 80U) << line;
  EXPECT_LE(lines(overview_text(command_specs())).size(), 40U);
}

}  // namespace help_test
}  // namespace hydrascope::app
