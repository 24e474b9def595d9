// `train` and `convert` in several processes.
#include "tests/app/cli/processes.h"
#include "tests/picture_files.h"

#include <cmath>
#include <iterator>
#include <memory>
#include <set>

namespace hydrascope::testing {
namespace training_processes_cli_test {

namespace fs = std::filesystem;

/// Sixteen pictures of two classes, in `set`.
void write_classes(const TemporaryFolder& folder) {
  for (unsigned i = 0; i < 16; ++i) {
    folder.write(fs::path("set") / (i % 2 == 0 ? "a" : "b") / (std::to_string(i) + ".ppm"),
                 ppm(40, 30, i));
  }
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

/// `words` split at blanks, and what makes two runs comparable number by number.
std::vector<std::string> exact(const std::string& words) {
  return words_of(
      words +
      " --device cpu --set amp-dtype=float32 --threads 1 --set workers=1 --set run.log-interval=1");
}

/// `training::MetricLog`'s values of `name`, in order.
std::vector<double> logged(const fs::path& file, const std::string& name) {
  std::vector<double> values;
  std::istringstream lines(read_bytes(file));
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record.contains(name)) values.push_back(record.at(name).get<double>());
  }
  return values;
}

TEST(TrainingProcessesCliTest, TrainingOnTwoIsTrainingWithTheDoubledBatch) {
  const TemporaryFolder folder;
  write_classes(folder);
  const auto command = [](const std::string& batch, const std::string& output) {
    return exact(
        "train set -m deit_tiny_patch8_16 --attn hydra:last6 --epochs 20 --set warmup-epochs=0 "
        "-b " +
        batch + " -o " + output);
  };
  const Outcome alone = run_well(command("16", "alone"), {.working_directory = folder.path()});
  for (const Outcome& outcome : run_ranks(2, command("8", "shared"), folder.path()))
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto expected = logged(folder.path() / "alone" / "metrics.jsonl", "loss");
  const auto losses = logged(folder.path() / "shared" / "metrics.jsonl", "loss");
  ASSERT_EQ(expected.size(), 20U);
  ASSERT_EQ(losses.size(), 20U);
  for (std::size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]) << "step " << i + 1;
  EXPECT_LT(losses.back(), losses.front());
}

TEST(TrainingProcessesCliTest, ARunGoesOnWithAnotherNumberOfProcesses) {
  const TemporaryFolder folder;
  write_classes(folder);
  const auto command = [](const std::string& batch, const std::string& epochs) {
    return exact(
        "train set -m deit_tiny_patch8_16 --set sched=constant --set warmup-epochs=0 -o out "
        "--resume auto -b " +
        batch + " --epochs " + epochs);
  };
  for (const Outcome& outcome : run_ranks(2, command("8", "3"), folder.path()))
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Outcome resumed = run_well(command("8", "6"), {.working_directory = folder.path()});
  EXPECT_NE(resumed.err.find("resumed at step 6 of 12"), std::string::npos) << resumed.err;
  EXPECT_NE(resumed.err.find("an update takes 8 pictures, 16 before"), std::string::npos)
      << resumed.err;
  EXPECT_EQ(logged(folder.path() / "out" / "metrics.jsonl", "loss").size(), 3U + 6U);
}

/// `pictures` to learn from, and `teacher.safetensors`.
void write_conversion(const TemporaryFolder& folder) {
  for (unsigned i = 0; i < 24; ++i)
    folder.write(fs::path("pictures") / (std::to_string(i) + ".ppm"), ppm(20, 20, i * 37));
  run_well({"models create --arch deit_tiny_patch8_16 --num-classes 2 --set seed=1 -o "
            "teacher.safetensors"},
           {.working_directory = folder.path()});
}

// Not mixed: each process mixes within its own batch.
TEST(TrainingProcessesCliTest, ConvertingOnTwoIsConvertingWithTheDoubledBatch) {
  const TemporaryFolder folder;
  write_conversion(folder);
  const auto command = [](const std::string& batch, const std::string& name) {
    return exact(
        "convert -m teacher.safetensors --attn hedgehog:10,hydra:11 -i pictures --held-out 6 "
        "--set steps-maps=4 --set steps-outputs=4 --epochs 2 --set last.evaluations=2 --set "
        "mixup=0 --set cutmix=0 "
        "-b " +
        batch + " --set maps.batch-size=" + batch + " -o " + name + ".safetensors --format json");
  };
  const Outcome alone = run_well(command("8", "alone"), {.working_directory = folder.path()});
  const std::vector<Outcome> shared = run_ranks(2, command("4", "shared"), folder.path());
  for (const Outcome& outcome : shared) ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto expected = alone.json();
  const auto report = shared[0].json();
  EXPECT_EQ(report["computed"], "cpu, float32, 2 processes");
  for (const std::string stage : {"maps", "outputs", "finetune"}) {
    const auto losses_of = [&](const std::string& name) {
      return logged(folder.path() / (name + ".safetensors.training/metrics.jsonl"),
                    stage + "/loss");
    };
    const std::vector<double> one = losses_of("alone");
    const std::vector<double> two = losses_of("shared");
    ASSERT_FALSE(one.empty());
    ASSERT_EQ(two.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(two[i], one[i], 2e-5 * one[i]) << stage << i;
  }
  EXPECT_EQ(report["stages"].back()["images"], expected["stages"].back()["images"]);
  EXPECT_EQ(report["held_out_images"], expected["held_out_images"]);
  for (const std::string what : {"error_before", "error_after"}) {
    for (std::size_t i = 0; i < 2; ++i) {
      const double error = expected["layers"][i][what].get<double>();
      EXPECT_NEAR(report["layers"][i][what].get<double>(), error, 1e-3 * error) << what << i;
    }
  }
}

TEST(TrainingProcessesCliTest, AConversionGoesOnWithAnotherNumberOfProcesses) {
  const TemporaryFolder folder;
  write_conversion(folder);
  const Words command = exact(
      "convert -m teacher.safetensors --attn hydra:last1 -i pictures --held-out 6 "
      "--set steps-outputs=0 --epochs 8 --set last.evaluations=8 -b 4 -o out.safetensors "
      "--format json --resume auto");
  const fs::path states = folder.path() / "out.safetensors.training";
  {
    Program program(command, {.working_directory = folder.path()});
    Program::wait_for(states / "last.safetensors");
    program.signal(SIGINT);
    ASSERT_EQ(program.wait().code, 130);
  }
  const std::size_t logged_before = logged(states / "metrics.jsonl", "finetune/loss").size();
  ASSERT_GT(logged_before, 0U);
  const std::vector<Outcome> shared = run_ranks(2, command, folder.path());
  for (const Outcome& outcome : shared) ASSERT_EQ(outcome.code, 0) << outcome.err;
  // Steps of two processes are twice as large: they are fewer, and come behind those that were.
  std::vector<double> steps = logged(states / "metrics.jsonl", "step");
  EXPECT_GT(steps.size(), logged_before);
  EXPECT_TRUE(std::ranges::is_sorted(steps));
  const auto report = shared[0].json();
  std::vector<std::int64_t> looks;
  for (const nlohmann::json& look : report["evaluations"])
    if (look["stage"] == "finetune") looks.push_back(look["step"]);
  EXPECT_TRUE(std::ranges::is_sorted(looks));
  EXPECT_EQ(looks.back(), report["stages"].back()["planned_steps"].get<std::int64_t>());
}

// Other numbers of steps would leave one of them waiting for the other.
TEST(TrainingProcessesCliTest, RanksTakeTheSameStepsOfTheirMinutes) {
  const TemporaryFolder folder;
  write_conversion(folder);
  const std::vector<Outcome> outcomes =
      run_ranks(2,
                exact("convert -m teacher.safetensors --attn hydra:last1 -i pictures --held-out 6 "
                      "--set steps-outputs=1000000 --epochs 1000000 --max-minutes 0.15 -b 4 "
                      "-o out.safetensors --format json"),
                folder.path());
  for (const Outcome& outcome : outcomes) ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json stages = outcomes[0].json()["stages"];
  ASSERT_EQ(stages.size(), 2U);
  for (const nlohmann::json& stage : stages) {
    EXPECT_GE(stage["planned_steps"], 10);
    EXPECT_LT(stage["planned_steps"], 1000000);
  }
  EXPECT_EQ(stages[0]["steps"], stages[0]["planned_steps"]);
}

/// Without threads and batch sizes, which would make it one process.
std::vector<std::string> conversion(const std::string& output, const Words& more) {
  Words words = words_of(
      "convert -m teacher.safetensors --attn hydra:last1 -i pictures --held-out 6 "
      "--set steps-outputs=4 --epochs 1 --set last.evaluations=1 --set workers=1 --device cpu "
      "--set amp-dtype=float32 --set mixup=0 --set cutmix=0 --format json -o " +
      output);
  words += more;
  return words;
}

TEST(TrainingProcessesCliTest, TheProgramStartsTheOthersItself) {
  const TemporaryFolder folder;
  write_conversion(folder);
  const RunOptions here{.working_directory = folder.path()};
  const Outcome two =
      run_well(conversion("two.safetensors", {"--processes 2 -b 4 --threads 1"}), here);
  EXPECT_EQ(two.json()["computed"], "cpu, float32, 2 processes");
  const double divergence =
      run_well(conversion("one.safetensors", {"--processes 1 -b 8 --threads 1"}), here)
          .json()["divergence"]
          .get<double>();
  EXPECT_NEAR(two.json()["divergence"].get<double>(), divergence, 1e-2 * divergence);
}

TEST(TrainingProcessesCliTest, WhatIsWrongIsSaidOnce) {
  const TemporaryFolder folder;
  write_conversion(folder);
  const Outcome outcome =
      run(conversion("out.safetensors", {"--processes 3 --start teacher.safetensors"}),
          {.working_directory = folder.path()});
  EXPECT_EQ(outcome.code, 2);
  const std::size_t first = outcome.err.find("error: ");
  ASSERT_NE(first, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("error: ", first + 1), std::string::npos) << outcome.err;
}

/// A child of `parent`, once there is one; 0 after a minute without.
pid_t child_of(pid_t parent) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < deadline) {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      // "PID (NAME) STATE PARENT ..."; processes come and go.
      std::string line;
      std::getline(std::ifstream(entry.path() / "stat"), line);
      const std::size_t bracket = line.rfind(')');
      if (bracket == std::string::npos) continue;
      std::istringstream words(line.substr(bracket + 1));
      char state = 0;
      pid_t its_parent = 0;
      if (words >> state >> its_parent && its_parent == parent) return std::stoi(name);
    }
  }
  return 0;
}

TEST(TrainingProcessesCliTest, ARankThatDiesBeforeItJoinsIsNoticed) {
  const TemporaryFolder folder;
  write_classes(folder);
  Program program(exact("train set -m deit_tiny_patch8_16 -b 8 -o out --processes 2"),
                  {.working_directory = folder.path()});
  const pid_t rank = child_of(program.pid());
  ASSERT_GT(rank, 0);
  kill(rank, SIGKILL);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("rank 1 was ended by signal 9 before the run began"),
            std::string::npos)
      << outcome.err;
}

TEST(TrainingProcessesCliTest, ASignalToTheFirstEndsAllInGoodOrder) {
  const TemporaryFolder folder;
  write_classes(folder);
  Program program(exact("train set -m deit_tiny_patch8_16 --epochs 100000 -b 8 -o out "
                        "--processes 2"),
                  {.working_directory = folder.path()});
  Program::wait_for(folder.path() / "out" / "last.safetensors");
  program.signal(SIGTERM);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 128 + SIGTERM) << outcome.err;
  EXPECT_NE(outcome.err.find("--resume auto"), std::string::npos) << outcome.err;
}

// Whatever rank meets a broken picture, all end with the same code and rank 0 counts them all.
TEST(TrainingProcessesCliTest, ConvertingRanksEndAlike) {
  const TemporaryFolder folder;
  write_conversion(folder);
  for (unsigned i = 0; i < 5; ++i)
    folder.write(fs::path("pictures") / ("broken" + std::to_string(i) + ".ppm"), "P6 no picture");
  const std::vector<Outcome> outcomes =
      run_ranks(2,
                exact("convert -m teacher.safetensors --attn hydra:last1 -i pictures --held-out 6 "
                      "--set steps-outputs=4 --epochs 1 -b 4 -o out.safetensors --format json"),
                folder.path());
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_EQ(outcomes[0].json()["unreadable_pictures"], 5);
}

TEST(TrainingProcessesCliTest, RanksWithDifferentOptionsDoNotTrain) {
  const TemporaryFolder folder;
  write_classes(folder);
  const int port = free_port();
  std::vector<std::unique_ptr<Program>> programs;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string rate = rank == 0 ? "1e-3" : "1e-4";
    programs.push_back(std::make_unique<Program>(
        exact("train set -m deit_tiny_patch8_16 --epochs 1 -b 8 -o out --lr " + rate),
        RunOptions{.working_directory = folder.path(),
                   .environment = rank_environment(rank, 2, port)}));
  }
  for (const auto& program : programs) {
    const Outcome outcome = program->wait();
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("different options"), std::string::npos) << outcome.err;
  }
}

TEST(TrainingProcessesCliTest, AKilledRankEndsTheTrainingWithAMessage) {
  const TemporaryFolder folder;
  write_classes(folder);
  const int port = free_port();
  const auto start = [&](int rank) {
    return std::make_unique<Program>(
        exact("train set -m deit_tiny_patch8_16 --epochs 100000 -b 8 -o out"),
        RunOptions{.working_directory = folder.path(),
                   .environment = rank_environment(rank, 2, port)});
  };
  const auto first = start(0);
  const auto second = start(1);
  Program::wait_for(folder.path() / "out" / "last.safetensors");
  second->signal(SIGKILL);
  EXPECT_EQ(second->wait().code, 128 + SIGKILL);
  const Outcome left = first->wait();
  EXPECT_EQ(left.code, 1) << left.err;
  EXPECT_NE(left.err.find("over all ranks failed"), std::string::npos) << left.err;
}

}  // namespace training_processes_cli_test
}  // namespace hydrascope::testing
