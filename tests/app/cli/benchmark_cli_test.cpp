// `benchmark` and the mechanisms on the command line.
#include "tests/app/cli/program.h"
#include "tests/picture_files.h"

#include <gmock/gmock.h>

#include <set>

namespace hydrascope::testing {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

const Words kQuick{"benchmark -m vit_tiny_patch32_224 --warmup 0 --iters 1 --img-size 64"};

Outcome benchmark(Words more) { return run(kQuick + more); }

TEST(BenchmarkCliTest, JsonHoldsHeaderAndTheContractsRow) {
  const Outcome outcome = benchmark({"--attn softmax,hydra --stage both --format json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = outcome.json();
  EXPECT_EQ(json.at("schema"), 1);
  for (const char* key : {"build", "commit", "compiler", "libtorch", "cuda", "driver", "cpu",
                          "instruction_sets", "threads"})
    EXPECT_TRUE(json.at("header").contains(key)) << key;
  const Json& rows = json.at("rows");
  ASSERT_EQ(rows.size(), 4U);
  for (const Json& row : rows) {
    EXPECT_EQ(row.size(), 25U) << "the contract's 22, attention_options, approximations, error";
    EXPECT_EQ(row.at("img_size"), Json({64, 64}));
    EXPECT_EQ(row.at("tokens"), 5);
    EXPECT_GT(row.at("images_per_second"), 0);
    EXPECT_GT(row.at("peak_memory_bytes"), 10'000'000);
    EXPECT_GT(row.at("peak_tflops_measured"), 0);
    EXPECT_NEAR(
        row.at("achieved_tflops").get<double>(),
        row.at("gflops_per_image").get<double>() * row.at("images_per_second").get<double>() / 1000,
        1e-9);
  }
  EXPECT_EQ(rows[0].at("attention"), "softmax");
  EXPECT_EQ(rows[3].at("attention"), "hydra");
  EXPECT_EQ(rows[3].at("stage"), "end_to_end");
}

TEST(BenchmarkCliTest, PrecisionIsTheFasterOneUnlessItIsNamed) {
  const auto precisions = [](Words more) {
    more += Words{"--format json --device cpu"};
    const Outcome outcome = benchmark(more);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::set<std::string> found;
    const Json rows = outcome.json().at("rows");
    for (const Json& row : rows) found.insert(row.at("precision"));
    return found;
  };
  using Names = std::set<std::string>;
  EXPECT_THAT(precisions({}), ::testing::AnyOf(Names{"float32"}, Names{"bfloat16"}));
  EXPECT_EQ(precisions({"--deterministic"}), Names{"float32"});
  EXPECT_EQ(precisions({"--stage train_step"}), Names{"float32"});
  EXPECT_EQ(precisions({"--precision float32,int8"}), (Names{"int8", "float32"}));
}

TEST(BenchmarkCliTest, BaselineCompareAndPlot) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "a.jsonl").string();
  const std::string plot = (folder.path() / "a.svg").string();
  ASSERT_EQ(benchmark({"-o", file, "--html", plot}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(plot));
  std::ifstream stream(file);
  std::string header;
  std::string line;
  std::getline(stream, header);
  std::getline(stream, line);
  Json row = Json::parse(line);
  row["ms_mean"] = row.at("ms_mean").get<double>() / 4;
  const std::string four = folder.write("four.jsonl", header + "\n" + row.dump() + "\n").string();
  const Outcome compared = run_well({"benchmark --compare", file, four, "--format json"});
  EXPECT_NEAR(compared.json().at("rows").at(0).at("ratio").get<double>(), 4.0, 1e-3);
  // A baseline that nothing can reach.
  row["images_per_second"] = 1e9;
  folder.write("fast.jsonl", header + "\n" + row.dump() + "\n");
  const Outcome slower = benchmark({"--baseline", folder.path() / "fast.jsonl"});
  EXPECT_EQ(slower.code, 4);
  EXPECT_THAT(slower.err, HasSubstr("check failed"));
  row["images_per_second"] = 1e-9;
  folder.write("slow.jsonl", header + "\n" + row.dump() + "\n");
  EXPECT_EQ(benchmark({"--baseline", folder.path() / "slow.jsonl"}).code, 0);
}

TEST(BenchmarkCliTest, ARefusedCombinationLosesNothingOfTheOthers) {
  const Outcome outcome =
      benchmark({"--precision int8,fp32 --kernels auto,reference --format json"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("error: the reference modules have no 8-bit form"));
  const Json rows = outcome.json().at("rows");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].at("precision"), "int8");
  EXPECT_EQ(rows[0].at("kernels"), "fused");
  EXPECT_EQ(rows[2].at("kernels"), "reference");
  EXPECT_EQ(benchmark({"--precision int8 --kernels reference"}).code, 2);
}

TEST(BenchmarkCliTest, WrongUseIsTwo) {
  EXPECT_EQ(benchmark({"--attn hydrra"}).code, 2);
  EXPECT_EQ(benchmark({"--html a.png"}).code, 2);
  EXPECT_EQ(run({"benchmark -m no_such_model"}).code, 2);
  EXPECT_EQ(benchmark({"--attn softmax --attn-opt hydra.scale=none"}).code, 2);
}

TEST(MechanismCliTest, EveryMechanismClassifiesAndIsInTheRecord) {
  const TemporaryFolder folder;
  const std::string picture = folder.write("a.ppm", ppm(40, 30)).string();
  const Json listing = run({"models list --format json"}).json();
  ASSERT_GT(listing.at("mechanisms").size(), 1U);
  for (const std::string name : listing.at("mechanisms")) {
    const Outcome outcome = run({"classify", picture, "--attn", name, "--format jsonl"});
    ASSERT_EQ(outcome.code, 0) << name << outcome.err;
    const Json record = outcome.records().at(0);
    EXPECT_EQ(record.at("attention"), name);
    if (name == "softmax") continue;
    EXPECT_THAT(outcome.err, HasSubstr("accuracy needs `hydrascope convert`"));
    const bool has_options = name == "hydra" || name == "hedgehog" || name == "performer";
    EXPECT_TRUE(!has_options || !record.at("attention_options").empty()) << name;
  }
}

TEST(MechanismCliTest, ScalePolicyIsInRecordAndMetadata) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "h.safetensors").string();
  run_well(
      {"models create --arch vit_tiny_patch32_224 --attn hydra:last4 --attn-opt "
       "hydra.scale=sqrt -o",
       file});
  const Json info = run({"models info", file, "--format json"}).json();
  EXPECT_EQ(info.at("attention"), "softmax:0-7,hydra:8-11");
  EXPECT_EQ(info.at("attention_options").at("hydra.scale"), "sqrt");
  const Json config = Json::parse(run({"inspect", file, "--format json"})
                                      .json()
                                      .at("metadata")
                                      .at("hydrascope.config")
                                      .get<std::string>());
  EXPECT_EQ(config.at("attention").at(11).at("options").at("scale"), "sqrt");
  EXPECT_EQ(config.at("attention").at(11).at("options").at("eps"), "1e-6");
}

TEST(MechanismCliTest, ASeedOfStoredDirectionsCannotBeChanged) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "p.safetensors").string();
  run_well(
      {"models create --arch vit_tiny_patch32_224 --attn performer --attn-opt "
       "performer.seed=3 -o",
       file});
  expect_error(2, {"seed=3"}, {"models info", file, "--attn-opt performer.seed=4 --format json"});
  run_well({"models info", file, "--attn-opt performer.seed=3"});
}

TEST(MechanismCliTest, InfoDescribesAMechanism) {
  const Json info = run({"models info hh --format json"}).json();
  EXPECT_EQ(info.at("mechanism"), "hedgehog");
  EXPECT_EQ(info.at("options").at(0).at("choices").size(), 5U);
  EXPECT_THAT(run({"classify --help"}).out, HasSubstr("taylor2"));
  EXPECT_THAT(run({"complete-word classify --attn-opt h"}).out,
              HasSubstr("hedgehog.variant=softmax1"));
  expect_error(2, {"an integer from 0 to 4096"},
               {"classify x.jpg --attn hedgehog --attn-opt hedgehog.width=1.5"});
}

TEST(MechanismCliTest, OptionsOfAMechanismMayBeThoseOfSomeLayers) {
  std::vector<std::string> arguments{"classify",   asset("images/otter-head.jpg").string(),
                                     "--attn",     "neighborhood",
                                     "--format",   "jsonl",
                                     "--attn-opt", "neighborhood.window=7",
                                     "--attn-opt", "neighborhood:6-11.window=14"};
  const Outcome outcome = run(arguments);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out).at("attention_options").at("neighborhood.window"), "14|7");
  arguments.back() = "neighborhood:12.window=14";
  const Outcome refused = run(arguments);
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("layers go from 0 to 11"), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace hydrascope::testing
