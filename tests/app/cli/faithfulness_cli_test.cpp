// evaluate --faithfulness as a user runs it, on a random model of 16 patches.
#include "tests/app/cli/program.h"
#include "tests/picture_files.h"

#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <set>
#include <thread>
#include <tuple>

namespace hydrascope::testing {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class FaithfulnessCliTest : public ::testing::Test {
 protected:
  FaithfulnessCliTest() {
    EXPECT_EQ(run({"models", "create", "--arch", "deit_tiny_patch16_224", "--num-classes", "3",
                   "--img-size", "64", "--seed", "1", "-o", model_.string()})
                  .code,
              0);
    for (unsigned i = 0; i < 3; ++i) {
      const std::string name = std::to_string(i) + ".ppm";
      folder_.write("pictures/" + name, ppm(80, 70, 11 * i));
      csv_ += name + "," + std::to_string(i) + "\n";
    }
    labels_ = folder_.write("labels.csv", csv_);
  }

  std::vector<std::string> command(const std::vector<std::string>& more) const {
    std::vector<std::string> words{"evaluate",     (folder_.path() / "pictures").string(),
                                   "--labels-csv", labels_.string(),
                                   "-m",           model_.string(),
                                   "--device",     "cpu"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  TemporaryFolder folder_;
  std::filesystem::path model_ = folder_.path() / "model.safetensors";
  std::string csv_ = "file,label\n";
  std::filesystem::path labels_;
};

using Key = std::tuple<std::string, std::string>;

std::set<Key> keys_of(const Json& faithfulness) {
  std::set<Key> keys;
  for (const Json& row : faithfulness.at("rows"))
    keys.emplace(row.at("map").get<std::string>(), row.at("measure").get<std::string>());
  return keys;
}

TEST_F(FaithfulnessCliTest, BaselinesAreAlwaysBeside) {
  const Outcome outcome =
      run(command({"--faithfulness", "deletion,insertion,positive,negative", "--maps",
                   "attention,hydra", "--steps", "4", "--format", "json"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = outcome.json();
  EXPECT_EQ(json.at("images"), 3);
  const Json& faithfulness = json.at("faithfulness");
  EXPECT_EQ(faithfulness.at("images"), 3);
  EXPECT_EQ(faithfulness.at("steps"), 4);
  EXPECT_EQ(faithfulness.at("layer"), 11);
  std::set<Key> expected;
  for (const char* map : {"attention", "hydra", "center", "random"}) {
    for (const char* measure : {"deletion", "insertion", "positive", "negative"})
      expected.insert({map, measure});
  }
  EXPECT_EQ(keys_of(faithfulness), expected);
  for (const Json& row : faithfulness.at("rows")) {
    EXPECT_EQ(row.at("images"), 3);
    EXPECT_GE(row.at("auc"), 0.0);
    EXPECT_LE(row.at("auc"), 1.0);
    EXPECT_GT(row.at("seconds"), 0.0);
  }
}

TEST_F(FaithfulnessCliTest, ASeedGivesTheSameTable) {
  const auto areas = [&](const std::string& seed) {
    const Outcome outcome = run(command({"--faithfulness", "deletion", "--maps", "random",
                                         "--steps", "4", "--seed", seed, "--format", "json"}));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::vector<double> list;
    const Json json = outcome.json();
    for (const Json& row : json.at("faithfulness").at("rows")) list.push_back(row.at("auc"));
    return list;
  };
  const std::vector<double> first = areas("7");
  ASSERT_EQ(first.size(), 2U) << "center and random";
  EXPECT_EQ(first, areas("7"));
  const std::vector<double> other = areas("8");
  EXPECT_EQ(first[0], other[0]) << "the centre has no seed";
  EXPECT_NE(first[1], other[1]);
}

TEST_F(FaithfulnessCliTest, EveryFormatShowsTheTable) {
  const std::vector<std::string> words{"--faithfulness", "deletion", "--maps",         "rollout",
                                       "--steps",        "2",        "--limit-images", "2"};
  const auto in_format = [&](const std::string& format) {
    std::vector<std::string> all = command(words);
    all.insert(all.end(), {"--format", format});
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome;
  };
  const Outcome text = in_format("text");
  EXPECT_THAT(text.out, HasSubstr("top1"));
  EXPECT_THAT(text.out, HasSubstr("lower is better"));
  EXPECT_THAT(text.out, HasSubstr("2 images"));
  EXPECT_THAT(text.out, HasSubstr("\nrollout "));
  EXPECT_THAT(text.out, HasSubstr("\nrandom "));
  EXPECT_THAT(text.out, HasSubstr("\ncenter "));
  EXPECT_EQ(in_format("csv").lines().size(), 4U) << "a header and three maps";
  EXPECT_EQ(in_format("jsonl").lines().size(), 1U);
}

TEST_F(FaithfulnessCliTest, PicturesThatFailAreLeftOut) {
  folder_.write("pictures/1.ppm", "no picture");
  const Outcome outcome = run(command(
      {"--faithfulness", "deletion", "--maps", "attention", "--steps", "2", "--format", "json"}));
  EXPECT_EQ(outcome.code, 3);
  const Json json = outcome.json();
  EXPECT_EQ(json.at("failed"), 1);
  EXPECT_EQ(json.at("images"), 2);
  EXPECT_EQ(json.at("faithfulness").at("images"), 2);
}

TEST_F(FaithfulnessCliTest, WhatDoesNotFitIsRefusedWithAReason) {
  const auto expect = [&](const std::vector<std::string>& more, const char* text) {
    const Outcome outcome = run(command(more));
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(text));
    EXPECT_TRUE(outcome.out.empty());
  };
  expect({"--faithfulness", "deletoin"}, "deletion");
  expect({"--faithfulness", "deletion", "--maps", "gradcma"}, "gradcam");
  expect({"--faithfulness", "deletion", "--layer", "12"}, "0 to 11");
  expect({"--faithfulness", "deletion", "--layer", "first"}, "--layer");
  expect({"--faithfulness", "deletion", "--steps", "0"}, "--steps");
  expect({"--faithfulness", "deletion", "--keep-tokens", "0.5"}, "all tokens");
  expect({"--maps", "hydra"}, "--faithfulness");
  expect({"--faithfulness", "deletion", "--attn", "hydra", "--maps", "attention"}, "hydra");
}

TEST_F(FaithfulnessCliTest, WithoutItNothingChanges) {
  const Outcome outcome = run(command({"--format", "json"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_FALSE(outcome.json().contains("faithfulness"));
  const Outcome one = run(command({"--format", "json", "--limit-images", "1"}));
  EXPECT_EQ(one.json().at("images"), 1);
}

TEST_F(FaithfulnessCliTest, AnInterruptPrintsWhatIsFinished) {
  std::string csv = "file,label\n";
  for (int i = 0; i < 400; ++i) csv += std::to_string(i % 3) + ".ppm,0\n";
  folder_.write("labels.csv", csv);
  Program program(command({"--faithfulness", "deletion", "--format", "json"}), {});
  std::this_thread::sleep_for(std::chrono::seconds(2));
  program.signal(SIGINT);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  const Json json = outcome.json();
  EXPECT_LT(json.at("images"), 400);
  EXPECT_EQ(json.at("images"), json.at("faithfulness").at("images"));
}

}  // namespace
}  // namespace hydrascope::testing
