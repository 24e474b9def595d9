// The words that the tables offer at the cursor. tests/contract/front.case tries them in shells.
#include "app/options/options.h"
#include "tests/error_matchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hydrascope::app {
namespace completion_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

std::vector<CommandSpec> commands() {
  return {
      {.name = "classify",
       .aliases = {"predict"},
       .summary = "top-k classes: it's [quick]",
       .positionals = "[INPUT...]",
       .options = join({model_options(), input_options(), preprocessing_options(),
                        runtime_options(), general_options()})},
      {.name = "models",
       .summary = "the models at hand",
       .options = general_options(),
       .subcommands = {{.name = "list"}, {.name = "info", .positionals = "[NAME]"}}},
      {.name = "completion", .summary = "scripts", .subcommands = {{"bash"}, {"zsh"}, {"fish"}}}};
}

/// The words without what they mean.
Words offered(const Words& typed) {
  Words words;
  for (const std::string& line : completions(commands(), typed))
    words.push_back(line.substr(0, line.find('\t')));
  return words;
}

TEST(Completions, CommandsAndAliases) {
  EXPECT_THAT(offered({""}), ElementsAre("classify", "predict", "models", "completion"));
  EXPECT_THAT(offered({"pre"}), ElementsAre("predict"));
  EXPECT_THAT(offered({"x"}), IsEmpty());
  EXPECT_THAT(completions(commands(), Words{"cl"}),
              ElementsAre("classify\ttop-k classes: it's [quick]"));
}

TEST(Completions, OptionsOfTheCommand) {
  EXPECT_THAT(offered({"classify", "--on"}), ElementsAre("--on-error"));
  EXPECT_THAT(offered({"predict", "a.jpg", "--fp"}), ElementsAre("--fp16"));
  EXPECT_THAT(offered({"classify", "-"}), IsSupersetOf({"--model", "--native", "--help"}));
  EXPECT_THAT(offered({"models", "list", "--c"}), ElementsAre("--config", "--color"));
  EXPECT_THAT(offered({"models", "--fi"}), IsEmpty());
  EXPECT_THAT(offered({"nothing", "--fi"}), IsEmpty());
  EXPECT_THAT(completions(commands(), Words{"classify", "--native"}),
              ElementsAre(StartsWith("--native\tshow each")));
  EXPECT_THAT(completions(commands(), Words{"classify", "--fp"}),
              Contains("--fp16\t--precision float16"));
}

TEST(Completions, WordsOfClosedSets) {
  EXPECT_THAT(offered({"classify", "--on-error", ""}), ElementsAre("skip", "fail"));
  EXPECT_THAT(offered({"classify", "--precision", "b"}), ElementsAre("bfloat16"));
  EXPECT_THAT(offered({"classify", "--on_error", "s"}), ElementsAre("skip"));
  EXPECT_THAT(offered({"classify", "--on-error=f"}), ElementsAre("fail"));
  EXPECT_THAT(offered({"classify", "--on-error", "="}), ElementsAre("skip", "fail"));
  EXPECT_THAT(offered({"classify", "--on-error", "=", "sk"}), ElementsAre("skip"));
}

TEST(Completions, FilesForArgumentsAndFileOptions) {
  for (const Words& typed : {Words{"classify", "photo"},
                             {"classify", "-m", "x"},
                             {"classify", "--checkpoint", ""},
                             {"classify", "--checkpoint", "=", "x"},
                             {"classify", "--recursive", "x"},
                             {"classify", "--fp16", "x"},
                             {"classify", "--", "x"},
                             {"classify", "--", "--on-error", "x"},
                             {"classify", "--", "--fi"},
                             {"models", "info", "x"}})
    EXPECT_THAT(offered(typed), ElementsAre("<files>")) << ::testing::PrintToString(typed);
}

TEST(Completions, NothingWhereAnythingGoes) {
  EXPECT_THAT(offered({"classify", "--batch-size", ""}), IsEmpty());
  EXPECT_THAT(offered({"classify", "-j", ""}), IsEmpty());
  EXPECT_THAT(offered({"completion", "bash", ""}), IsEmpty());
}

TEST(Completions, SubcommandsFirst) {
  EXPECT_THAT(offered({"models", ""}), ElementsAre("list", "info"));
  EXPECT_THAT(offered({"completion", "b"}), ElementsAre("bash"));
}

TEST(CompletionScript, RefusesOtherShells) {
  EXPECT_ERROR(completion_script("fihs"), invalid_argument, "bash, zsh or fish", "'fihs'",
               "did you mean fish?");
  EXPECT_ERROR(completion_script(""), invalid_argument, "bash, zsh or fish");
}

}  // namespace completion_test
}  // namespace hydrascope::app
