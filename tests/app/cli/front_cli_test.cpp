// The front: what it answers without the engine, and what it passes on.
#include "tests/app/cli/program.h"

#include <gmock/gmock.h>

namespace hydrascope::testing {
namespace front_cli_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// A copy of the front in a folder of its own, beside an engine that says what it was asked.
class FrontCliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::copy(HYDRASCOPE_PROGRAM, folder_.path() / "bin/hydrascope");
    here_.program = folder_.path() / "bin/hydrascope";
    here_.working_directory = folder_.path();
  }
  void make_engine(const fs::path& file) const {
    folder_.write(file,
                  "#!/bin/sh\nprintf '%s|' \"$@\"\n"
                  "printf 'spins %s policy %s' \"$GOMP_SPINCOUNT\" \"$OMP_WAIT_POLICY\"\n");
    fs::permissions(folder_.path() / file, fs::perms::owner_all);
  }

  TemporaryFolder folder_;
  RunOptions here_;
  fs::path made_ = folder_.write("bin/readme", "");
};

TEST_F(FrontCliTest, LoadsNoLargeLibrary) {
  RunOptions traced;
  traced.environment["LD_TRACE_LOADED_OBJECTS"] = "1";  // the loader lists them and stops
  const Outcome outcome = run({"help"}, traced);
  EXPECT_THAT(outcome.out, HasSubstr("libstdc++"));
  for (const char* library : {"torch", "c10", "gomp", "opencv", "cuda"})
    EXPECT_THAT(outcome.out, Not(HasSubstr(library)));
}

TEST_F(FrontCliTest, AnswersWithoutTheEngine) {
  for (const Words& words : std::vector<Words>{{},
                                               {"help"},
                                               {"-h"},
                                               {"--version"},
                                               {"help", "classify"},
                                               {"help", "--man"},
                                               {"train", "--help"},
                                               {"models", "create", "-h"},
                                               {"completion", "bash"},
                                               {"classify", "--dump-config", "--topk", "3"}}) {
    const Outcome outcome = run_well(words, here_);
    EXPECT_FALSE(outcome.out.empty());
  }
  for (const Words& words : std::vector<Words>{{"clasify"},
                                               {"--native"},
                                               {"classify", "--topk", "0"},
                                               {"classify", "--no-such-option"},
                                               {"models", "list", "--seed", "1"},
                                               {"help", "clasify"},
                                               {"help", "models", "lst"},
                                               {"completion", "tcsh"}}) {
    const Outcome outcome = run(words, here_);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("error: "), Not(HasSubstr("engine"))));
  }
}

TEST_F(FrontCliTest, SaysThatTheEngineIsMissing) {
  const Outcome outcome = run({"classify a.jpg"}, here_);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, AllOf(StartsWith("error: the program is not complete: "
                                            "hydrascope-engine is missing ("),
                                 HasSubstr("\nhint: ")));
  folder_.write("bin/hydrascope-engine", "no program");
  expect_error(1, {"error: cannot be started: Permission denied ("}, {"classify a.jpg"}, here_);
}

TEST_F(FrontCliTest, FindsTheEngineWhereItWasInstalled) {
  make_engine("libexec/hydrascope/hydrascope-engine");
  EXPECT_THAT(run({"classify a.jpg"}, here_).out, StartsWith("classify|a.jpg|"));
  // Beside the front it comes first.
  folder_.write("bin/hydrascope-engine", "#!/bin/sh\necho beside\n");
  fs::permissions(folder_.path() / "bin/hydrascope-engine", fs::perms::owner_all);
  EXPECT_EQ(run({"classify a.jpg"}, here_).out, "beside\n");
}

TEST_F(FrontCliTest, LetsThreadsWaitBriefly) {
  make_engine("bin/hydrascope-engine");
  ASSERT_EQ(unsetenv("OMP_WAIT_POLICY"), 0);  // ctest sets it for the tests' own sake
  EXPECT_EQ(run({"doctor"}, here_).out, "doctor|spins 1000 policy ");
  here_.environment = {{"GOMP_SPINCOUNT", "7"}};
  EXPECT_EQ(run({"doctor"}, here_).out, "doctor|spins 7 policy ");
  here_.environment = {{"OMP_WAIT_POLICY", "active"}};
  EXPECT_EQ(run({"doctor"}, here_).out, "doctor|spins  policy active");
}

TEST_F(FrontCliTest, ClassifiesWhatOnlyAPictureCanBe) {
  make_engine("bin/hydrascope-engine");
  folder_.write("a file without extension", "");
  fs::create_directory(folder_.path() / "folder");
  folder_.write("models", "");
  for (const std::string word : {"a file without extension", "folder", "*.jpg", "-", "@list.txt",
                                 "absent.jpg", "absent.MP4", "--"}) {
    EXPECT_THAT(run({word, "--topk 1"}, here_).out, StartsWith("classify|" + word + "|--topk|1|"));
  }
  EXPECT_THAT(run({"models"}, here_).out, StartsWith("models|spins"));
  EXPECT_EQ(run({"absent"}, here_).code, 2);
}

TEST_F(FrontCliTest, PassesWordsOnAsTheyAre) {
  make_engine("bin/hydrascope-engine");
  EXPECT_THAT(
      run({"predict", std::string("a b.jpg"), "--topk=2 -- -x", std::string("")}, here_).out,
      StartsWith("predict|a b.jpg|--topk=2|--|-x||"));
  // A pipe can be read once, and that is for the engine.
  EXPECT_THAT(run({"classify --config /dev/stdin"}, here_).out,
              StartsWith("classify|--config|/dev/stdin|"));
}

TEST_F(FrontCliTest, SaysThatStandardOutputCannotBeWritten) {
  RunOptions full;
  full.standard_output = "/dev/full";
  const std::string picture = asset("images").string();
  for (const Words& words : std::vector<Words>{{"help"},
                                               {"version"},
                                               {"classify", "-h"},
                                               {"completion", "zsh"},
                                               {"train", "--dump-config"},
                                               {"classify", "--print-transform"}}) {
    const Outcome outcome = run(words, full);
    EXPECT_EQ(outcome.code, 1) << words.front();
    EXPECT_EQ(outcome.err,
              "error: not everything could be written (standard output)\n"
              "hint: is there space left on the disk?\n");
  }
}

TEST(HelpCliTest, BriefHelpFitsOnAScreen) {
  for (const char* command :
       {"classify", "visualize", "benchmark", "evaluate", "compare", "faithfulness", "diagnose",
        "convert", "train", "models", "inspect", "doctor", "completion", "version", "help"}) {
    RunOptions wide;
    wide.environment["COLUMNS"] = "100";
    const Outcome brief = run_well({command, "-h"}, wide);
    const bool is_overview = std::string_view(command) == "help";
    EXPECT_LE(brief.lines().size(), is_overview ? 40U : 28U) << command;
    const Outcome all = run({command, "--help"}, wide);
    if (!is_overview) {
      EXPECT_EQ(all.out, run({"help", command}, wide).out) << command;
    }
    EXPECT_GE(all.out.size(), brief.out.size());
    wide.environment["COLUMNS"] = "72";
    for (const std::string& line : run({command, "--help"}, wide).lines()) {
      if (line == "Examples:") break;  // which are copied
      EXPECT_LE(line.size(), 72U) << command << ": " << line;
    }
  }
}

TEST(HelpCliTest, SubcommandsShowWhatTheyTake) {
  const std::string list = run({"models list --help"}).out;
  EXPECT_THAT(list,
              AllOf(HasSubstr("--format"), Not(HasSubstr("--attn")), Not(HasSubstr("--seed"))));
  EXPECT_EQ(run({"help models list"}).out, list);
  EXPECT_THAT(run({"models create --help"}).out, HasSubstr("--seed"));
  const Outcome outcome = run({"models list --attn hydra"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "error: takes no --attn (models list)\nhint: models info and models create do\n");
}

TEST(HelpCliTest, NamesEveryMechanismOfTheEngine) {
  const nlohmann::json listing = run({"models list --format json"}).json();
  const std::vector<std::string> mechanisms = listing.at("mechanisms");
  ASSERT_FALSE(mechanisms.empty());
  // What is listed has its page.
  for (const std::string rule : listing.at("position_rules")) run_well({"models info", rule});
  std::string names;
  for (const std::string& name : mechanisms) names += name + "\t\n";
  const std::string nothing;
  EXPECT_EQ(run({"complete-word classify --attn", nothing}).out, names);
  RunOptions wide;
  wide.environment["COLUMNS"] = "120";
  const std::string help = run({"classify --help"}, wide).out;
  for (const std::string& name : mechanisms) EXPECT_THAT(help, HasSubstr(name));
  EXPECT_THAT(run({"complete-word train --attn-opt hedgehog.v"}).out,
              HasSubstr("hedgehog.variant=exp"));
}

}  // namespace front_cli_test
}  // namespace hydrascope::testing
