// The scripts of `hydrascope completion`, run by their shells where these are installed.
#include "tests/app/cli/program.h"

#include <gmock/gmock.h>

namespace hydrascope::testing {
namespace completion_cli_test {

namespace fs = std::filesystem;

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CompletionCliTest : public ::testing::Test {
 protected:
  CompletionCliTest() {
    folder_.write("photo one.jpg");
    folder_.write("photo_two.jpg");
    fs::create_symlink(HYDRASCOPE_PROGRAM, folder_.path() / "hydrascope");
    for (const char* shell : {"bash", "zsh", "fish"})
      folder_.write(std::string("script.") + shell, run({"completion", shell}).out);
  }

  /// What the shell prints that runs `code`; the test is skipped where it is not installed.
  Outcome in_shell(const std::string& shell, const std::string& code) const {
    RunOptions options{.working_directory = folder_.path(), .program = "/usr/bin/" + shell};
    options.environment["HOME"] = folder_.path().string();
    options.environment["PATH"] = folder_.path().string() + ":/usr/bin:/bin";
    return run({"-c", code}, options);
  }
  /// What bash offers for the last word of `words`, which are split as readline splits them.
  std::vector<std::string> offered(const std::string& words, int count) const {
    return in_shell("bash", "source script.bash; COMP_WORDS=(hydrascope " + words +
                                "); COMP_CWORD=" + std::to_string(count) +
                                "; _hydrascope || exit 9; printf '%s\n' \"${COMPREPLY[@]}\"")
        .lines();
  }

  TemporaryFolder folder_;
};

TEST_F(CompletionCliTest, BashAsksTheProgram) {
  if (!fs::exists("/usr/bin/bash")) GTEST_SKIP() << "bash is not installed";
  EXPECT_THAT(in_shell("bash", "source script.bash && complete -p hydrascope").lines(),
              ElementsAre("complete -F _hydrascope hydrascope"));
  EXPECT_THAT(offered("pre", 1), ElementsAre("predict"));
  EXPECT_THAT(offered("classify --fit ''", 3), ElementsAre("pad", "crop", "resize"));
  EXPECT_THAT(offered("classify --fit = cr", 4), ElementsAre("crop"));
  EXPECT_THAT(offered("classify --nat", 2), ElementsAre("--native"));
  EXPECT_THAT(offered("classify photo", 2),
              ::testing::UnorderedElementsAre("photo one.jpg", "photo_two.jpg"));
  EXPECT_THAT(offered("classify --checkpoint = photo_", 4), ElementsAre("photo_two.jpg"));
  EXPECT_THAT(offered("nothing ''", 2), ElementsAre(""));
}

TEST_F(CompletionCliTest, ZshParsesItsScript) {
  if (!fs::exists("/usr/bin/zsh")) GTEST_SKIP() << "zsh is not installed";
  const Outcome outcome = in_shell("zsh", "zsh -fn script.zsh");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST_F(CompletionCliTest, FishAsksTheProgram) {
  if (!fs::exists("/usr/bin/fish")) GTEST_SKIP() << "fish is not installed";
  const auto offers = [&](const std::string& line) {
    return in_shell("fish", "source script.fish; complete -C '" + line + "' | string split -f1 \\t")
        .lines();
  };
  EXPECT_THAT(offers("hydrascope pre"), ElementsAre("predict"));
  EXPECT_THAT(offers("hydrascope predict --fit "), Contains("crop"));
  EXPECT_THAT(offers("hydrascope classify photo_"), ElementsAre("photo_two.jpg"));
}

}  // namespace completion_cli_test
}  // namespace hydrascope::testing
