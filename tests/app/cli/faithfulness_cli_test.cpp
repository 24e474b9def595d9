// faithfulness as a user runs it, on a random model of 16 patches.
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
    run_well(
        {"models create --arch deit_tiny_patch16_224 --num-classes 3 --img-size 64 --seed 1 -o",
         model_});
    for (unsigned i = 0; i < 3; ++i) {
      const std::string name = std::to_string(i) + ".ppm";
      folder_.write("pictures/" + name, ppm(80, 70, 11 * i));
      csv_ += name + "," + std::to_string(i) + "\n";
    }
    labels_ = folder_.write("labels.csv", csv_);
  }

  Words command(const Words& more) const {
    return Words{"faithfulness", folder_.path() / "pictures", "--labels-csv", labels_, "-m", model_,
                 "--device cpu"} +
           more;
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
  const Json json =
      run_well(command({"--measure deletion,insertion,positive,negative --method attention,hydra "
                        "--steps 4 --format json"}))
          .json();
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
    const Outcome outcome = run_well(
        command({"--measure deletion --method random --steps 4 --seed", seed, "--format json"}));
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
  const Words words{"--measure deletion --method rollout --steps 2 --limit-images 2"};
  const auto in_format = [&](const std::string& format) {
    Words all = command(words);
    all += Words{"--format", format};
    const Outcome outcome = run_well(all);
    return outcome;
  };
  const Outcome text = in_format("text");
  EXPECT_THAT(text.out, HasSubstr("top1"));
  EXPECT_THAT(text.out, HasSubstr("lower is better"));
  EXPECT_THAT(text.out, HasSubstr("2 pictures"));
  EXPECT_THAT(text.out, HasSubstr("\nrollout "));
  EXPECT_THAT(text.out, HasSubstr("\nrandom "));
  EXPECT_THAT(text.out, HasSubstr("\ncenter "));
  EXPECT_EQ(in_format("csv").lines().size(), 4U) << "a header and three maps";
  EXPECT_EQ(in_format("jsonl").lines().size(), 1U);
}

TEST_F(FaithfulnessCliTest, PicturesThatFailAreLeftOut) {
  folder_.write("pictures/1.ppm", "no picture");
  const Outcome outcome =
      run(command({"--measure deletion --method attention --steps 2 --format json"}));
  EXPECT_EQ(outcome.code, 3);
  const Json json = outcome.json();
  EXPECT_EQ(json.at("failed"), 1);
  EXPECT_EQ(json.at("images"), 2);
  EXPECT_EQ(json.at("faithfulness").at("images"), 2);
}

TEST_F(FaithfulnessCliTest, WhatDoesNotFitIsRefusedWithAReason) {
  const auto expect = [&](const Words& more, const char* text) {
    const Outcome outcome = run(command(more));
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(text));
    EXPECT_TRUE(outcome.out.empty());
  };
  expect({"--measure deletoin"}, "deletion");
  expect({"--measure deletion --method gradcma"}, "gradcam");
  expect({"--measure deletion --layer 12"}, "0 to 11");
  expect({"--measure deletion --layer first"}, "--layer");
  expect({"--measure deletion --steps 0"}, "--steps");
  expect({"--measure deletion --attn hydra --method attention"}, "hydra");
}

TEST_F(FaithfulnessCliTest, NeedsNoLabelsForDeletionAndInsertion) {
  const Words words{"faithfulness", folder_.path() / "pictures/1.ppm", "-m", model_,
                    "--method hydra --steps 2"};
  const auto with = [&](const Words& more) { return run(words + more); };
  const Outcome outcome = with({"--format json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = outcome.json();
  EXPECT_TRUE(json.at("top1").is_null());
  EXPECT_EQ(keys_of(json.at("faithfulness")), (std::set<Key>{{"center", "deletion"},
                                                             {"center", "insertion"},
                                                             {"hydra", "deletion"},
                                                             {"hydra", "insertion"},
                                                             {"random", "deletion"},
                                                             {"random", "insertion"}}));
  const Outcome negative = with({"--measure negative"});
  EXPECT_EQ(negative.code, 2);
  EXPECT_THAT(negative.err, HasSubstr("the pictures have no labels (--measure negative)"));
  EXPECT_EQ(with({"--class target"}).code, 2);
}

TEST_F(FaithfulnessCliTest, TheEarlierSpellingPrintsTheSameTable) {
  Words now = command({"--measure deletion --method hydra --steps 2 --format json"});
  Words before = command({"--faithfulness deletion --maps hydra --steps 2 --format json"});
  before[0] = "evaluate";
  const Outcome earlier = run_well(before);
  EXPECT_THAT(earlier.err,
              HasSubstr("note: evaluate --faithfulness is now hydrascope faithfulness\n"));
  const Json rows = run(now).json().at("faithfulness").at("rows");
  const Json rows_before = earlier.json().at("faithfulness").at("rows");
  ASSERT_EQ(rows.size(), 3U);
  ASSERT_EQ(rows_before.size(), 3U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].at("map"), rows_before[i].at("map"));
    EXPECT_EQ(rows[i].at("auc"), rows_before[i].at("auc"));
  }
}

TEST_F(FaithfulnessCliTest, AnInterruptPrintsWhatIsFinished) {
  std::string csv = "file,label\n";
  for (int i = 0; i < 400; ++i) csv += std::to_string(i % 3) + ".ppm,0\n";
  folder_.write("labels.csv", csv);
  Program program(command({"--measure deletion --format json -v"}), {});
  Program::wait_until(
      "the set", [&] { return program.errors_so_far().find("labels: ") != std::string::npos; });
  program.signal(SIGINT);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(" of 400 pictures"));
  if (outcome.out.empty()) {  // no table of nothing
    EXPECT_THAT(outcome.err, HasSubstr("stopped after 0 of"));
    return;
  }
  const Json json = outcome.json();
  EXPECT_LT(json.at("images"), 400);
  EXPECT_EQ(json.at("images"), json.at("faithfulness").at("images"));
}

}  // namespace
}  // namespace hydrascope::testing
