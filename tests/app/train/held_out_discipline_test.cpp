// The training pictures of the kept commands: never the set that their results are measured on.
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

namespace hydrascope::testing {
namespace {

namespace fs = std::filesystem;

const fs::path kScripts = fs::path(HYDRASCOPE_SOURCE_DIR) / "scripts";
constexpr const char* kMeasured = "ccby_1k_eval";

/// The command lines that a script starts with `arguments`, a word each: those of a program that
/// only writes them down. OUTPUT in `arguments`, if it is there, stands for a folder.
std::vector<std::vector<std::string>> kept_commands(const char* script, std::string arguments) {
  const TemporaryFolder folder;
  const fs::path log = folder.path() / "log";
  const fs::path program = folder.write(
      "program", "#!/bin/sh\nprintf '%s\\n' \"$@\" end-of-command >> '" + log.string() + "'\n");
  fs::permissions(program, fs::perms::owner_all);
  if (const std::size_t output = arguments.find("OUTPUT"); output != std::string::npos)
    arguments.replace(output, 6, "'" + (folder.path() / "models").string() + "'");
  const std::string command = "unset PROCESSES; HYDRASCOPE='" + program.string() + "' '" +
                              (kScripts / script).string() + "' " + arguments;
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  std::vector<std::vector<std::string>> commands(1);
  std::istringstream words(read_bytes(log));
  for (std::string word; std::getline(words, word);) {
    if (word == "end-of-command")
      commands.emplace_back();
    else
      commands.back().push_back(word);
  }
  commands.pop_back();
  return commands;
}

TEST(HeldOutDiscipline, TheKeptCommandsOnlyMeasureOnTheEvaluationSet) {
  const auto commands =
      kept_commands("make/make_models.sh",
                    "/pictures OUTPUT 3 hydra_last1 hydra_last2 hydra_last4 hydra hedgehog mixed");
  EXPECT_EQ(commands.size(), 6U);
  for (const std::vector<std::string>& words : commands) {
    EXPECT_EQ(words.at(0), "convert");
    std::set<std::string> learned_from;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string& option = words[i - 1];
      if (option == "-i") learned_from.insert(words[i]);
      const bool names_it = words[i].find(kMeasured) != std::string::npos;
      EXPECT_EQ(names_it, option == "--eval" || option == "--labels-csv") << option << words[i];
    }
    EXPECT_EQ(learned_from,
              (std::set<std::string>{"/pictures/imagenette/train", "/pictures/imagenet_1k_one_each",
                                     "/pictures/caltech101_unlabelled"}));
  }
}

TEST(HeldOutDiscipline, ScenesLieOnTheTrainingHalfOfTheBackgrounds) {
  const TemporaryFolder folder;
  for (const char* name : {"backgrounds/b.jpg", "backgrounds/a.jpg", "backgrounds/d.jpg",
                           "backgrounds/c.jpg", "caltech101_unlabelled/BACKGROUND_1.jpg"}) {
    fs::create_directories((folder.path() / name).parent_path());
    folder.write(name, "");
  }
  const std::string pictures = folder.path().string();
  const auto commands =
      kept_commands("make/make_models.sh", "'" + pictures + "' '" + pictures + "/made' 3 window");
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_THAT(commands.front(), ::testing::Contains("@" + pictures + "/made/backgrounds.txt"));
  EXPECT_EQ(read_bytes(folder.path() / "made" / "backgrounds.txt"),
            pictures + "/backgrounds/a.jpg\n" + pictures + "/backgrounds/c.jpg\n" + pictures +
                "/caltech101_unlabelled/BACKGROUND_1.jpg\n");
}

TEST(HeldOutDiscipline, FromScratchOnlyWhatIsGivenIsLearnedFrom) {
  const auto commands =
      kept_commands("make/make_models.sh", "/pictures OUTPUT 0 scratch_softmax scratch_hydra");
  EXPECT_EQ(commands.size(), 2U);
  for (const std::vector<std::string>& words : commands) {
    EXPECT_EQ(words.at(0), "train");
    EXPECT_EQ(words.at(1), "/pictures/imagenette");
    for (std::size_t i = 2; i < words.size(); ++i) {
      EXPECT_EQ(words[i].find(kMeasured), std::string::npos) << words[i];
      EXPECT_NE(words[i], "-i");
    }
  }
}

// No other script trains and names that set in one line.
TEST(HeldOutDiscipline, NoOtherScriptTrainsBesideTheEvaluationSet) {
  for (const fs::directory_entry& script : fs::recursive_directory_iterator(kScripts)) {
    if (!script.is_regular_file() || script.path().filename() == "make_models.sh") continue;
    const std::string text =
        std::regex_replace(read_bytes(script.path()), std::regex(R"(\\\n)"), " ");
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.find(kMeasured) == std::string::npos) continue;
      // The name alone, as a word or as text of an array; "distill" wherever it stands.
      static const std::regex command(R"((^|[\s"'])(train|convert)($|[\s"'])|distill)");
      EXPECT_FALSE(std::regex_search(line, command)) << script.path() << ": " << line;
    }
  }
}

}  // namespace
}  // namespace hydrascope::testing
