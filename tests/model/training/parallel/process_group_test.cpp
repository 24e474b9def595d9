#include "model/training/parallel/process_group.h"

#include "kernels/stopwatch.h"
#include "model/training/parallel/averaging.h"
#include "model/training/parallel/launch_environment.h"
#include "model/vision_transformer.h"
#include "tests/error_matchers.h"
#include "tests/free_port.h"
#include "tests/model/training/distillation/small_models.h"
#include "tests/model/training/parallel/ranks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <unistd.h>

namespace hydrascope::model::training {
namespace {

using testing::run_as_ranks;

TEST(ProcessGroupTest, SumsAndBroadcastsOfThreeRanks) {
  if (run_as_ranks(3)) return;
  const auto group = join_process_group(c10::kCPU);
  ASSERT_EQ(group->world_size(), 3);
  const int rank = group->rank();
  EXPECT_EQ(group->is_first(), rank == 0);

  for (const auto dtype :
       {at::kFloat, at::kDouble, at::kLong, at::kInt, at::kHalf, at::kBFloat16}) {
    const at::Tensor values = at::arange(5, dtype).add(rank);
    group->sum({values});
    EXPECT_TRUE(at::equal(values, at::arange(5, dtype).mul(3).add(3))) << dtype << values;
  }
  const at::Tensor flags = at::full({2}, rank == 0, at::kBool);
  const at::Tensor scalar = at::full({}, rank + 7, at::kDouble);
  const at::Tensor columns = at::full({3, 2}, rank + 1, at::kFloat).t();
  group->broadcast({flags, scalar, columns, at::empty({0})});
  EXPECT_TRUE(flags.all().item<bool>());
  EXPECT_EQ(scalar.item<double>(), 7);
  EXPECT_TRUE(at::equal(columns, at::ones({2, 3})));

  const at::Tensor transposed = at::arange(6, at::kFloat).view({2, 3}).t();
  group->sum({transposed, at::empty({0})});
  EXPECT_TRUE(at::equal(transposed, at::arange(6, at::kFloat).view({2, 3}).t().mul(3)));
  group->barrier();
}

TEST(ProcessGroupTest, OneProcessKeepsItsValues) {
  ProcessGroup group;
  EXPECT_EQ(group.world_size(), 1);
  const at::Tensor values = at::arange(4, at::kFloat);
  group.broadcast({values});
  group.sum({values});
  group.barrier();
  EXPECT_TRUE(at::equal(values, at::arange(4, at::kFloat)));
}

TEST(ProcessGroupTest, ARankThatDiesIsNoticedWithinSeconds) {
  if (run_as_ranks(3, {.exit_codes = {0, 7, 0}})) return;
  const auto group = join_process_group(c10::kCPU);
  const at::Tensor one = at::ones({1});
  group->sum({one});
  if (group->rank() == 1) _exit(7);
  const auto begin = Clock::now();
  EXPECT_ERROR(group->sum({one}), failed, "a sum over all ranks failed");
  EXPECT_LT(seconds_since(begin), 5);
}

TEST(ProcessGroupTest, WaitingForOthersCanBeInterrupted) {
  if (run_as_ranks(2, {.exit_codes = {0, 7}})) return;
  if (std::string(std::getenv("RANK")) == "1") _exit(7);
  const auto begin = Clock::now();
  EXPECT_ERROR(join_process_group(c10::kCPU, [&] { return seconds_since(begin) > 0.2; }), failed,
               "stopped while the processes");
  EXPECT_LT(seconds_since(begin), 30) << "the time limit is minutes";
}

TEST(ProcessGroupTest, SeveralProcessesDoNotTrainOnGpus) {
  if (run_as_ranks(2)) return;
  EXPECT_ERROR(join_process_group(c10::Device(c10::kCUDA, 1)), invalid_argument,
               "several processes cannot train on GPUs", "`device` cuda:1", "`device` cpu");
}

TEST(ProcessGroupTest, RankZeroServesTheStoreOfAShellLoop) {
  if (run_as_ranks(2, {.environment = {{"TORCHELASTIC_USE_AGENT_STORE", "False"},
                                       {"MASTER_PORT", std::to_string(testing::free_port())}}}))
    return;
  const auto group = join_process_group(c10::kCPU);
  const at::Tensor one = at::ones({1});
  group->sum({one});
  EXPECT_EQ(one.item<float>(), 2);
}

std::vector<at::Tensor> zeros(std::initializer_list<at::ScalarType> types) {
  std::vector<at::Tensor> parameters;
  for (const at::ScalarType type : types)
    parameters.push_back(at::zeros({2, 3}, type).requires_grad_(true));
  return parameters;
}

void expect_gradient(const at::Tensor& parameter, double value) {
  ASSERT_TRUE(parameter.grad().defined());
  EXPECT_TRUE(at::equal(parameter.grad(), at::full_like(parameter, value)))
      << parameter.grad() << " is not " << value;
}

TEST(AveragingTest, GradientsAreTheMeanOfRanksThatUseOtherParameters) {
  if (run_as_ranks(2)) return;
  const auto group = join_process_group(c10::kCPU);
  const double x = group->is_first() ? 1 : 3;
  for (int step = 0; step < 2; ++step) {
    const auto w = zeros({at::kFloat, at::kDouble, at::kBFloat16, at::kFloat});
    // 0 is used by both in two backward passes, 1 by rank 0, 2 by rank 1, 3 by none.
    (w[0] * x).sum().backward();
    ((w[0] * (10 * x)).sum() + w[group->is_first() ? 1 : 2].sum() * x).backward();
    average_gradients(w, *group);
    expect_gradient(w[0], 22);
    expect_gradient(w[1], 0.5);
    expect_gradient(w[2], 1.5);
    EXPECT_FALSE(w[3].grad().defined());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(w[i].grad().scalar_type(), w[i].scalar_type());
  }
}

TEST(AveragingTest, OneProcessIsLeftAlone) {
  ProcessGroup group;
  const auto w = zeros({at::kFloat, at::kFloat});
  (w[0] * 4).sum().backward();
  average_gradients(w, group);
  expect_gradient(w[0], 4);
  EXPECT_FALSE(w[1].grad().defined());
}

// Performer's random features are a buffer, the patch embedding is frozen.
TEST(AveragingTest, EveryWeightIsRankZeros) {
  if (run_as_ranks(2)) return;
  const auto group = join_process_group(c10::kCPU);
  const VitConfig config = small_config("performer");
  const auto drawn_from = [&](std::uint64_t seed) {
    at::manual_seed(seed);
    return VisionTransformer(config);
  };
  VisionTransformer model = drawn_from(static_cast<std::uint64_t>(group->rank()));
  model->named_parameters()["patch_embed.proj.weight"].set_requires_grad(false);
  const VisionTransformer expected = drawn_from(0);
  share_weights(*model, *group);
  const auto theirs = named_tensors(*expected);
  const auto ours = named_tensors(*model);
  ASSERT_EQ(ours.size(), theirs.size());
  bool has_buffer = false;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(at::equal(ours[i].second, theirs[i].second)) << ours[i].first;
    has_buffer |= model->named_buffers().contains(ours[i].first);
  }
  EXPECT_TRUE(has_buffer);
  EXPECT_TRUE(model->named_parameters()["head.weight"].requires_grad());
}

class LaunchEnvironmentTest : public ::testing::Test {
 protected:
  LaunchEnvironmentTest() { clear(); }
  ~LaunchEnvironmentTest() override { clear(); }

  static void set(const std::map<std::string, std::string>& values) {
    for (const auto& [name, value] : values) setenv(name.c_str(), value.c_str(), 1);
  }
  static void set_all() {
    set({{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "host"}, {"MASTER_PORT", "29500"}});
  }

 private:
  static void clear() {
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
                             "TORCHELASTIC_USE_AGENT_STORE"})
      unsetenv(name);
  }
};

TEST_F(LaunchEnvironmentTest, NothingMeansOneProcess) {
  const LaunchEnvironment launch = read_launch_environment();
  EXPECT_FALSE(launch.has_others());
  EXPECT_TRUE(launch.is_first());
}

TEST_F(LaunchEnvironmentTest, AWorldOfOneNeedsNothingElse) {
  set({{"WORLD_SIZE", "1"}});
  EXPECT_FALSE(read_launch_environment().has_others());
}

TEST_F(LaunchEnvironmentTest, AShellLoopNeedsFourVariables) {
  set_all();
  const LaunchEnvironment launch = read_launch_environment();
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.world_size, 4);
  EXPECT_EQ(launch.local_world_size, 1);
  EXPECT_EQ(launch.master_addr, "host");
  EXPECT_EQ(launch.master_port, 29500);
  EXPECT_FALSE(launch.agent_store);
}

TEST_F(LaunchEnvironmentTest, TorchrunSaysMore) {
  set_all();
  set({{"LOCAL_WORLD_SIZE", "2"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  const LaunchEnvironment launch = read_launch_environment();
  EXPECT_EQ(launch.local_world_size, 2);
  EXPECT_TRUE(launch.agent_store);
}

TEST_F(LaunchEnvironmentTest, AllOrNone) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    set_all();
    unsetenv(name);
    EXPECT_ERROR(read_launch_environment(), invalid_argument, name, "is not set");
  }
}

TEST_F(LaunchEnvironmentTest, WrongValuesNameTheVariable) {
  const std::map<std::string, std::vector<std::string>> wrong = {
      {"RANK", {"-1", "4", "1x", "one"}},
      {"WORLD_SIZE", {"0", "-2", "4.0"}},
      {"MASTER_PORT", {"0", "65536", "http"}},
      {"LOCAL_WORLD_SIZE", {"0", "5"}}};
  for (const auto& [name, values] : wrong) {
    for (const std::string& value : values) {
      set_all();
      set({{name, value}});
      EXPECT_ERROR(read_launch_environment(), invalid_argument, name.c_str(), value.c_str());
    }
    unsetenv(name.c_str());
  }
}

}  // namespace
}  // namespace hydrascope::model::training
