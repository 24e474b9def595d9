// Commands as torchrun starts them: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the
// environment.
#include "tests/app/cli/processes.h"
#include "tests/picture_files.h"

#include <cmath>
#include <iterator>
#include <memory>
#include <set>

namespace hydrascope::testing {
namespace {

namespace fs = std::filesystem;

/// Five pictures of two classes, in `set`.
void write_set(const TemporaryFolder& folder) {
  for (unsigned i = 0; i < 5; ++i) {
    const std::string name = std::to_string(i) + ".ppm";
    folder.write(fs::path("set") / (i < 3 ? "n02444819" : "n01440764") / name, ppm(40, 30, i));
  }
}

TEST(ManyProcessesCliTest, EvaluateScoresTheWholeSetOnce) {
  const TemporaryFolder folder;
  write_set(folder);
  folder.write("set/n02444819/bad.ppm", "P6 no picture");
  const Words words = {"evaluate", "set", "--device", "cpu", "--format", "json", "--save-logits"};
  auto alone = words;
  alone.emplace_back("alone.npy");
  const Outcome one = run(alone, {.working_directory = folder.path()});
  ASSERT_EQ(one.code, 3) << one.err;
  auto shared = words;
  shared.emplace_back("shared.npy");
  const std::vector<Outcome> two = run_ranks(2, shared, folder.path());
  ASSERT_EQ(two[0].code, 3) << two[0].err;
  EXPECT_EQ(two[1].code, 3) << two[1].err;
  EXPECT_EQ(two[1].out, "");
  EXPECT_EQ((two[0].err + two[1].err).find("bad.ppm"), (two[0].err + two[1].err).rfind("bad.ppm"))
      << "one process meets it";
  for (const char* key : {"top1", "top5", "images", "failed", "model", "img_size"})
    EXPECT_EQ(two[0].json().at(key), one.json().at(key)) << key;

  const std::vector<float> expected = Npy(folder.path() / "alone.npy").values;
  const std::vector<float> found = Npy(folder.path() / "shared.npy").values;
  ASSERT_EQ(found.size(), 6 * 1000U);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(std::isnan(found[i]), std::isnan(expected[i])) << i;
    if (std::isnan(found[i])) continue;
    ASSERT_NEAR(found[i], expected[i], 1e-3F) << i;
  }
}

TEST(ManyProcessesCliTest, AFailedCheckIsEveryonesExitCode) {
  const TemporaryFolder folder;
  write_set(folder);
  const std::vector<Outcome> ranks =
      run_ranks(2, {"evaluate set --device cpu --require-top1 100"}, folder.path());
  EXPECT_EQ(ranks[0].code, 4) << ranks[0].err;
  EXPECT_EQ(ranks[1].code, 4) << ranks[1].err;
  EXPECT_NE(ranks[0].err.find("--require-top1"), std::string::npos);
  EXPECT_EQ(ranks[1].err, "");
}

TEST(ManyProcessesCliTest, ClassifyWritesAFileARank) {
  const TemporaryFolder folder;
  write_set(folder);
  const std::vector<Outcome> ranks = run_ranks(
      2, {"classify set --recursive --device cpu -o records.jsonl --save-logits logits.npy"},
      folder.path());
  std::multiset<std::string> inputs;
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ranks[rank].code, 0) << ranks[rank].err;
    const std::string name = "rank" + std::to_string(rank);
    std::istringstream lines(read_bytes(folder.path() / ("records." + name + ".jsonl")));
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line); ++count)
      inputs.insert(nlohmann::json::parse(line).at("input").get<std::string>());
    EXPECT_EQ(count, rank == 0 ? 3U : 2U);
    EXPECT_EQ(Npy(folder.path() / ("logits." + name + ".npy")).values.size(), count * 1000);
  }
  EXPECT_EQ(inputs.size(), 5U);
  EXPECT_EQ(std::set<std::string>(inputs.begin(), inputs.end()).size(), 5U);
  EXPECT_FALSE(fs::exists(folder.path() / "records.jsonl"));
}

TEST(ManyProcessesCliTest, ARankThatNeverComesIsNamed) {
  expect_error(1, {"waited for rank 1 of 2 to join"},
               {"classify", asset("images"), "--device cpu --ddp-timeout 0.5"},
               {.environment = rank_environment(0, 2, free_port())});
}

/// Python imports all of PyTorch first, hence slow.
class SlowTorchrunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string(HYDRASCOPE_TORCHRUN).empty())
      GTEST_SKIP() << "no torchrun: set HYDRASCOPE_TORCHRUN to that of a Python with PyTorch";
  }

  /// Both streams, and the exit code.
  std::pair<int, std::string> torchrun(const std::string& arguments) const {
    const fs::path log = folder_.path() / "log";
    const std::string command =
        std::string("'") + HYDRASCOPE_TORCHRUN + "' --standalone --nproc-per-node 2 --no-python '" +
        HYDRASCOPE_PROGRAM + "' " + arguments + " > '" + log.string() + "' 2>&1";
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), read_bytes(log)};
  }

  TemporaryFolder folder_;
};

TEST_F(SlowTorchrunTest, SharesTheInputsOfOneOutput) {
  const auto [code, log] = torchrun("classify '" + asset("images").string() +
                                    "' --device cpu --format jsonl --topk 1000");
  EXPECT_EQ(code, 0) << log;
  std::set<std::string> inputs;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("{\"schema\":", 0) != 0) continue;
    const auto record = nlohmann::json::parse(line);
    EXPECT_EQ(record.at("top").size(), 1000U);
    inputs.insert(record.at("input").get<std::string>());
  }
  EXPECT_EQ(inputs.size(), 5U) << log;
}

TEST_F(SlowTorchrunTest, ShowsTheErrorOfARankAndFails) {
  const auto [code, log] = torchrun("classify '" + asset("images").string() +
                                    "' --device cpu -m /nothing/there.safetensors");
  EXPECT_NE(code, 0);
  const std::size_t summary = log.find("ChildFailedError");
  ASSERT_NE(summary, std::string::npos) << log;
  EXPECT_NE(log.find("there.safetensors", summary), std::string::npos) << log;
}

}  // namespace
}  // namespace hydrascope::testing
