// Help, overview and man page.
#include "app/options.h"

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
  EXPECT_THAT(help_text({.name = "models",
                         .summary = "",
                         .positionals = "[NAME]",
                         .subcommands = {"list", "info"}}),
              StartsWith("usage: hydrascope models list|info [NAME]\n"));
}

TEST(HelpText, GroupsOptionsUnderHeadings) {
  const std::string text = help_text(classify());
  const std::size_t model = text.find("\nModel:\n");
  const std::size_t runtime = text.find("\nRuntime:\n");
  const std::size_t general = text.find("\nGeneral:\n");
  ASSERT_NE(general, std::string::npos);
  EXPECT_LT(model, text.find("--attn SPEC"));
  EXPECT_LT(text.find("--attn SPEC"), runtime);
  EXPECT_LT(runtime, general);
  EXPECT_THAT(help_text({.name = "x", .summary = "", .options = {{.name = "y"}}}),
              HasSubstr("\nOptions:\n      --y TEXT"));
}

TEST(HelpText, ShowsNamesChoicesDefaultsAndAliases) {
  const std::string text = help_text(classify(), 200);
  EXPECT_THAT(text, HasSubstr("  -m, --model NAME|FILE|FOLDER|hf-hub:org/name[@rev]\n"));
  EXPECT_THAT(text, HasSubstr("(default: the bundled checkpoint; also --arch)"));
  EXPECT_THAT(text, HasSubstr("--precision auto|float32|tf32|float16|bfloat16|int8\n"));
  EXPECT_THAT(text,
              HasSubstr("(default: auto; also --dtype; --fp16 = float16; --bf16 = bfloat16)"));
  EXPECT_THAT(text, HasSubstr("(default: chosen by size)"));
  EXPECT_THAT(text, HasSubstr("(repeatable)"));
  EXPECT_THAT(text, HasSubstr("      --deterministic         the same bits"));
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

TEST(HelpText, SurvivesAnyWidth) {
  const std::string narrow = help_text(classify(), -5);
  EXPECT_EQ(narrow, help_text(classify(), 0));
  EXPECT_THAT(narrow, HasSubstr("--deterministic"));
}

TEST(OverviewText, ListsCommandsWithAliasesAndSummaries) {
  const std::vector<CommandSpec> commands = {
      classify(), {.name = "evaluate", .aliases = {"eval", "validate"}, .summary = "top-1/top-5"}};
  const std::string text = overview_text(commands);
  EXPECT_THAT(text, StartsWith("usage: hydrascope COMMAND [OPTIONS] [INPUT...]\n"));
  EXPECT_THAT(text, HasSubstr("  classify (predict)          top-k classes of images\n"));
  EXPECT_THAT(text, HasSubstr("  evaluate (eval, validate)   top-1/top-5\n"));
  EXPECT_THAT(text, HasSubstr("hydrascope help COMMAND"));
}

TEST(ManPage, HoldsCommandsOptionsExamplesAndExitCodes) {
  const std::string text = man_page(std::vector<CommandSpec>{classify()}, "1.2.3");
  EXPECT_THAT(text, StartsWith(".TH HYDRASCOPE 1 \"\" \"hydrascope 1.2.3\""));
  EXPECT_THAT(text, HasSubstr(".SS hydrascope classify [OPTIONS] [INPUT...]\n"));
  EXPECT_THAT(text, HasSubstr("\\fB\\-m\\fR, \\fB\\-\\-model\\fR \\fINAME"));
  EXPECT_THAT(text, HasSubstr("hydrascope classify photo.jpg\n"));
  EXPECT_THAT(text, HasSubstr(".TP\n3\nfinished, but some inputs failed\n"));
}

TEST(ManPage, EscapesWhatTroffWouldObey) {
  const std::vector<CommandSpec> commands = {{.name = "x",
                                              .summary = ".so /etc/passwd",
                                              .options = {{.name = "a", .help = "'quoted' \\fB"}},
                                              .examples = {"'x' \\\n.y"}}};
  const std::string text = man_page(commands, "1");
  EXPECT_THAT(text, HasSubstr("\n\\&.so /etc/passwd\n"));
  EXPECT_THAT(text, HasSubstr("\n\\&\\(aqquoted\\(aq \\efB\n"));
  EXPECT_THAT(text, HasSubstr("\\e\n\\&.y\n"));
}

}  // namespace help_test
}  // namespace hydrascope::app
