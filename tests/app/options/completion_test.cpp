// The completion scripts, run by their shells where these are installed.
#include "app/options/options.h"
#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

namespace hydrascope::app {
namespace completion_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;
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

std::string shell_quoted(const std::string& word) {
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

struct Outcome {
  int status = -1;
  Words lines;
};

Outcome run(const std::string& command) {
  Outcome result;
  std::string output;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  std::array<char, 512> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) output += buffer.data();
  result.status = pclose(pipe);
  std::istringstream stream(output);
  for (std::string line; std::getline(stream, line);) result.lines.push_back(line);
  return result;
}

class Completion : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.write("photo one.jpg", "");
    folder_.write("photo_two.jpg", "");
  }

  std::string write_script(const std::string& shell) const {
    return folder_.write("script", completion_script(shell, commands())).string();
  }

  hydrascope::testing::TemporaryFolder folder_;
};

class BashCompletion : public Completion {
 protected:
  void SetUp() override {
    if (run("bash -c 'exit 0'").status != 0) GTEST_SKIP() << "bash is not installed";
    Completion::SetUp();
    script_ = write_script("bash");
  }

  /// What bash offers for the last word, the words split as readline splits them.
  Words offered(const Words& words) const {
    std::string line = "cd " + shell_quoted(folder_.path().string()) + "; source " +
                       shell_quoted(script_) + "; COMP_WORDS=(hydrascope";
    for (const std::string& word : words) line += " " + shell_quoted(word);
    line += "); COMP_CWORD=" + std::to_string(words.size()) +
            "; _hydrascope || exit 9; ((${#COMPREPLY[@]})) && printf '%s\\n' \"${COMPREPLY[@]}\";"
            " exit 0";
    const Outcome result = run("bash --norc --noprofile -c " + shell_quoted(line));
    EXPECT_EQ(result.status, 0);
    return result.lines;
  }

  std::string script_;
};

TEST_F(BashCompletion, IsRegistered) {
  const Outcome result = run("bash --norc -c " + shell_quoted("source " + shell_quoted(script_) +
                                                              " && complete -p hydrascope"));
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.lines, ElementsAre("complete -F _hydrascope hydrascope"));
}

TEST_F(BashCompletion, OffersCommandsAndAliases) {
  EXPECT_THAT(offered({""}), UnorderedElementsAre("classify", "predict", "models", "completion"));
  EXPECT_THAT(offered({"pre"}), ElementsAre("predict"));
  EXPECT_THAT(offered({"x"}), IsEmpty());
}

TEST_F(BashCompletion, OffersTheOptionsOfTheCommand) {
  EXPECT_THAT(offered({"classify", "--fi"}), ElementsAre("--fit"));
  EXPECT_THAT(offered({"predict", "a.jpg", "--fp"}), ElementsAre("--fp16"));
  EXPECT_THAT(offered({"classify", "-"}), IsSupersetOf({"--model", "--native", "--help"}));
  EXPECT_THAT(offered({"models", "list", "--c"}), UnorderedElementsAre("--config", "--color"));
  EXPECT_THAT(offered({"models", "--fi"}), IsEmpty());
  EXPECT_THAT(offered({"nothing", "--fi"}), IsEmpty());
}

TEST_F(BashCompletion, OffersTheWordsOfClosedSets) {
  EXPECT_THAT(offered({"classify", "--fit", ""}), ElementsAre("pad", "crop", "resize"));
  EXPECT_THAT(offered({"classify", "--dtype", "b"}), ElementsAre("bfloat16"));
  EXPECT_THAT(offered({"classify", "--pos_interp", "t"}), ElementsAre("timm", "tile"));
}

TEST_F(BashCompletion, OffersThemAfterEqualsToo) {
  EXPECT_THAT(offered({"classify", "--fit", "="}), ElementsAre("pad", "crop", "resize"));
  EXPECT_THAT(offered({"classify", "--fit", "=", "cr"}), ElementsAre("crop"));
}

TEST_F(BashCompletion, OffersFilesForArgumentsAndFileOptions) {
  const Words files = {"photo one.jpg", "photo_two.jpg"};
  EXPECT_THAT(offered({"classify", "photo"}), ::testing::UnorderedElementsAreArray(files));
  EXPECT_THAT(offered({"classify", "-m", "photo_"}), ElementsAre("photo_two.jpg"));
  EXPECT_THAT(offered({"classify", "--weights", "photo_"}), ElementsAre("photo_two.jpg"));
  EXPECT_THAT(offered({"classify", "--checkpoint", "=", "photo_"}), ElementsAre("photo_two.jpg"));
}

TEST_F(BashCompletion, DoesNotTakeTheWordAfterAFlagForItsValue) {
  EXPECT_THAT(offered({"classify", "--recursive", "photo_"}), ElementsAre("photo_two.jpg"));
  EXPECT_THAT(offered({"classify", "--fp16", "photo_"}), ElementsAre("photo_two.jpg"));
}

TEST_F(BashCompletion, IsSilentWhereAnythingGoes) {
  EXPECT_THAT(offered({"classify", "--batch-size", ""}), IsEmpty());
  EXPECT_THAT(offered({"classify", "-j", ""}), IsEmpty());
  EXPECT_THAT(offered({"completion", "bash", ""}), IsEmpty());
}

TEST_F(BashCompletion, OffersFilesOnlyAfterTheDoubleDash) {
  EXPECT_THAT(offered({"classify", "--", "--fi"}), IsEmpty());
  EXPECT_THAT(offered({"classify", "--", "photo_"}), ElementsAre("photo_two.jpg"));
  EXPECT_THAT(offered({"classify", "--", "--fit", "photo_"}), ElementsAre("photo_two.jpg"));
}

TEST_F(BashCompletion, OffersSubcommandsFirst) {
  EXPECT_THAT(offered({"models", ""}), UnorderedElementsAre("list", "info"));
  EXPECT_THAT(offered({"completion", "b"}), ElementsAre("bash"));
  EXPECT_THAT(offered({"models", "info", "photo_"}), ElementsAre("photo_two.jpg"));
}

TEST_F(Completion, HoldsEveryOptionInEveryShell) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = completion_script(shell, commands());
    for (const CommandSpec& command : commands()) {
      EXPECT_THAT(script, HasSubstr(command.name));
      for (const Option& option : command.options) EXPECT_THAT(script, HasSubstr(option.name));
    }
    EXPECT_THAT(script, HasSubstr("predict"));
    EXPECT_THAT(script, HasSubstr("bash zsh fish"));
  }
}

TEST_F(Completion, OfZshIsAnAutoloadableFunction) {
  const std::string script = completion_script("zsh", commands());
  EXPECT_TRUE(script.starts_with("#compdef hydrascope\n"));
  EXPECT_THAT(script, HasSubstr("'classify:top-k classes: it'\\''s [quick]'"));
  EXPECT_THAT(script, HasSubstr("'--fit=["));
  EXPECT_THAT(script, HasSubstr(":fit:(pad crop resize)'"));
  EXPECT_THAT(script, HasSubstr("'*--input=["));
  EXPECT_THAT(script, HasSubstr(":PATH:_files'"));
  EXPECT_THAT(script, HasSubstr("'--native[no resize\\: each"));
}

TEST_F(Completion, OfFishNamesTheCommandOfEveryOption) {
  const std::string script = completion_script("fish", commands());
  EXPECT_THAT(script, HasSubstr("-a 'classify' -d 'top-k classes: it\\'s [quick]'"));
  EXPECT_THAT(script, HasSubstr("'__hydrascope_command classify predict' -l fit -x -a 'pad crop "
                                "resize'"));
  EXPECT_THAT(script, HasSubstr("-l model -s m -r -F"));
  EXPECT_THAT(script, HasSubstr("-l fp16 -d '--precision float16'"));
}

TEST_F(Completion, OfZshParses) {
  if (run("zsh -fc 'exit 0'").status != 0) GTEST_SKIP() << "zsh is not installed";
  const Outcome result = run("zsh -fn " + shell_quoted(write_script("zsh")));
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.lines, IsEmpty());
}

TEST_F(Completion, OfFishOffersWhatBashOffers) {
  if (run("fish --no-config -c 'exit 0'").status != 0) GTEST_SKIP() << "fish is not installed";
  const std::string script = write_script("fish");
  const auto offered = [&](const std::string& line) {
    Words words =
        run("cd " + shell_quoted(folder_.path().string()) + " && HOME=. fish --no-config -c " +
            shell_quoted("source " + script + "; complete -C \"" + line + "\""))
            .lines;
    for (std::string& word : words) word = word.substr(0, word.find('\t'));
    return words;
  };
  EXPECT_THAT(offered("hydrascope "),
              UnorderedElementsAre("classify", "predict", "models", "completion"));
  EXPECT_THAT(offered("hydrascope predict --fit "), UnorderedElementsAre("pad", "crop", "resize"));
  EXPECT_THAT(offered("hydrascope classify photo_"), ElementsAre("photo_two.jpg"));
  EXPECT_THAT(offered("hydrascope models "), UnorderedElementsAre("list", "info"));
  EXPECT_THAT(offered("hydrascope models list --fi"), IsEmpty());
}

TEST_F(Completion, RefusesOtherShells) {
  EXPECT_ERROR(completion_script("fihs", commands()), invalid_argument, "bash, zsh or fish",
               "'fihs'", "did you mean fish?");
  EXPECT_ERROR(completion_script("", commands()), invalid_argument, "bash, zsh or fish");
}

}  // namespace completion_test
}  // namespace hydrascope::app
