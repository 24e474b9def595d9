// The program's commands once each, as a newcomer calls them: the part of the command line's tests that
// scripts/test.sh runs by default.
#include "tests/app/cli/program.h"

namespace hydrascope::testing {
namespace smoke_test {

namespace fs = std::filesystem;

const std::string kOtters = asset("images/oakland-zoo-otters.jpg").string();

/// What a picture's record calls it.
std::string first_label(const nlohmann::json& record) {
  return record.at("top").at(0).at("label").get<std::string>();
}

TEST(SmokeTest, SaysItsVersionAndItsCommands) {
  EXPECT_TRUE(run({"version"}).out.starts_with("hydrascope "));
  const Outcome help = run_well({"help"});
  for (const char* command : {"classify", "visualize", "evaluate", "benchmark", "convert", "train"})
    EXPECT_NE(help.out.find(command), std::string::npos) << command;
}

TEST(SmokeTest, RefusesWhatItDoesNotKnow) {
  expect_error(2, {"--topk"}, {"classify --topq 3", kOtters});
  EXPECT_EQ(run({"clasify"}).code, 2);
}

TEST(SmokeTest, ClassifiesAPhotograph) {
  const Outcome outcome = run_well({kOtters});
  EXPECT_NE(outcome.out.find("otter"), std::string::npos) << outcome.out;
}

TEST(SmokeTest, AgreesWithItselfInEveryPrecision) {
  for (const char* precision : {"float32", "bfloat16", "int8"}) {
    const Outcome outcome = run_well({"classify --precision", precision, "--format json", kOtters});
    EXPECT_EQ(first_label(outcome.json().at(0)), "otter") << precision;
  }
}

TEST(SmokeTest, GoesOnAfterABrokenPicture) {
  const TemporaryFolder folder;
  folder.write("a.jpg", "no picture");
  fs::copy(kOtters, folder.path() / "b.jpg");
  const Outcome outcome = run({"classify --format jsonl", folder.path()});
  EXPECT_EQ(outcome.code, 3);
  const auto records = outcome.records();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_TRUE(records.at(0).contains("error"));
  EXPECT_EQ(first_label(records.at(1)), "otter");
}

TEST(SmokeTest, ReadsPathsFromStandardInput) {
  const Outcome outcome =
      run_well({"classify --format jsonl -"}, {.standard_input = kOtters + "\n"});
  EXPECT_EQ(outcome.records().size(), 1U);
}

TEST(SmokeTest, RunsAConvertedModelAndARectangle) {
  const Outcome outcome =
      run_well({"classify -m", asset("models/deit_tiny_patch16_224.hedgehog.safetensors"),
                "--img-size 224x384 --format json", kOtters});
  EXPECT_EQ(outcome.json().at(0).at("tokens"), 14 * 24 + 1);
}

TEST(SmokeTest, DrawsWhatTheModelLookedAt) {
  const TemporaryFolder folder;
  const auto records =
      run_well({"visualize -o", folder.path(), "--format jsonl", kOtters}).records();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_TRUE(fs::exists(records.at(0).at("files").at("heatmap").get<std::string>()));
}

TEST(SmokeTest, ScoresALabelledFolder) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "n02444819");
  fs::copy(kOtters, folder.path() / "n02444819/a.jpg");
  const Outcome outcome = run_well({"evaluate", folder.path(), "--format json"});
  EXPECT_EQ(outcome.json().at("top1"), 100.0);
}

TEST(SmokeTest, MeasuresItself) {
  const Outcome outcome = run_well(
      {"benchmark --img-size 32 --duration 0.05 --warmup 1 --batch-size 1 --format jsonl"});
  EXPECT_GT(outcome.records().at(1).at("images_per_second"), 0.0);
}

TEST(SmokeTest, ListsModelsAndMechanisms) {
  const Outcome outcome = run_well({"models list --format json"});
  for (const char* name : {"softmax", "hydra", "hedgehog", "deit_tiny_patch16_224"})
    EXPECT_NE(outcome.out.find(name), std::string::npos) << name;
}

TEST(SmokeTest, WritesACheckpointThatItReadsAgain) {
  const TemporaryFolder folder;
  const std::string copy = (folder.path() / "copy.safetensors").string();
  run_well({"convert", asset("models/deit_tiny_patch16_224.softmax.safetensors"), copy});
  run_well({"inspect", copy});
  EXPECT_EQ(first_label(run({"classify -m", copy, "--format json", kOtters}).json().at(0)),
            "otter");
}

TEST(SmokeTest, KnowsItsMachineAndAnswersAsItShouldThere) {
  run_well({"doctor"});
  const Outcome outcome = run({"doctor --self-test"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
}

}  // namespace smoke_test
}  // namespace hydrascope::testing
