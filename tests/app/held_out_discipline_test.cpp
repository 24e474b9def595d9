// What the kept commands learn from: never the set that their results are measured on.
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>

#include <sstream>

namespace hydrascope::testing {
namespace {

TEST(HeldOutDiscipline, TheKeptCommandsOnlyMeasureOnTheEvaluationSet) {
  const std::string script =
      read_bytes(std::filesystem::path(HYDRASCOPE_SOURCE_DIR) / "scripts" / "make_models.sh");
  std::istringstream lines(script);
  std::string training;
  int measuring = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    if (line.starts_with("training=(")) training += line;
    if (line.find("ccby_1k_eval") == std::string::npos) continue;
    ++measuring;
    EXPECT_TRUE(line.starts_with("measured=(--eval ")) << line;
    EXPECT_EQ(line.find("-i "), std::string::npos) << line;
  }
  EXPECT_EQ(measuring, 1);
  // All that is trained on goes through this one variable.
  EXPECT_THAT(training, ::testing::HasSubstr("imagenette/train"));
  EXPECT_EQ(training.find("ccby"), std::string::npos);
  std::size_t inputs = 0;
  for (std::size_t at = script.find("-i \""); at != std::string::npos;
       at = script.find("-i \"", at + 1))
    ++inputs;
  EXPECT_EQ(inputs, 3);
}

}  // namespace
}  // namespace hydrascope::testing
