#include "model/training/parallel/process_group.h"

#include "kernels/stopwatch.h"
#include "tests/error_matchers.h"
#include "tests/free_port.h"
#include "tests/model/training/parallel/ranks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
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

TEST(ProcessGroupTest, SumsThatRunAtOnceDoNotMix) {
  if (run_as_ranks(2)) return;
  const auto group = join_process_group(c10::kCPU);
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 32; ++i)
    tensors.push_back(at::full({1000 + i}, i + group->rank(), at::kFloat));
  group->sum(tensors);
  for (int i = 0; i < 32; ++i)
    EXPECT_TRUE(at::equal(tensors[i], at::full({1000 + i}, 2.0 * i + 1, at::kFloat))) << i;
}

TEST(ProcessGroupTest, GroupsFollowEachOther) {
  if (run_as_ranks(2)) return;
  for (int i = 0; i < 2; ++i) {
    const auto group = join_process_group(c10::kCPU);
    const at::Tensor one = at::ones({1});
    group->sum({one});
    EXPECT_EQ(one.item<float>(), 2);
  }
}

TEST(ProcessGroupTest, ARankThatDiesIsNamedWithinSeconds) {
  if (run_as_ranks(3, {.exit_codes = {0, 7, 0}})) return;
  const auto group = join_process_group(c10::kCPU);
  const at::Tensor one = at::ones({1});
  group->sum({one});
  if (group->rank() == 1) _exit(7);
  const auto begin = Clock::now();
  EXPECT_ERROR(group->sum({one}), failed, "a sum over all ranks failed",
               "rank 1 gives no sign of life");
  EXPECT_LT(seconds_since(begin), 5);
}

TEST(ProcessGroupTest, ARankThatHangsRunsIntoTheTimeout) {
  if (run_as_ranks(2)) return;
  const auto group = join_process_group(c10::kCPU, {.timeout = std::chrono::milliseconds(300)});
  const auto begin = Clock::now();
  if (group->rank() == 1) {
    sleep(3);
    return;
  }
  EXPECT_ERROR(group->barrier(), failed, "a barrier over all ranks failed",
               "rank 1 gives no sign of life");
  EXPECT_LT(seconds_since(begin), 3);
}

TEST(ProcessGroupTest, ARankThatNeverComesIsNamed) {
  if (run_as_ranks(2, {.exit_codes = {0, 7}})) return;
  if (std::string(std::getenv("RANK")) == "1") _exit(7);
  EXPECT_ERROR(join_process_group(c10::kCPU, {.join_timeout = std::chrono::milliseconds(300)}),
               failed, "rank 0 waited for rank 1 of 2 to join");
}

TEST(ProcessGroupTest, WaitingForOthersCanBeInterrupted) {
  if (run_as_ranks(2, {.exit_codes = {0, 7}})) return;
  if (std::string(std::getenv("RANK")) == "1") _exit(7);
  const auto begin = Clock::now();
  JoinOptions options;
  options.interrupted = [&] { return seconds_since(begin) > 0.2; };
  EXPECT_ERROR(join_process_group(c10::kCPU, options), failed, "stopped while the processes");
  EXPECT_LT(seconds_since(begin), 30) << "the time limit is minutes";
}

TEST(ProcessGroupTest, AMasterThatIsNotThere) {
  if (run_as_ranks(1, {.environment = {{"RANK", "1"},
                                       {"LOCAL_RANK", "1"},
                                       {"WORLD_SIZE", "2"},
                                       {"LOCAL_WORLD_SIZE", "2"},
                                       {"MASTER_PORT", "1"},
                                       {"TORCHELASTIC_USE_AGENT_STORE", "False"}}}))
    return;
  EXPECT_ERROR(join_process_group(c10::kCPU, {.join_timeout = std::chrono::milliseconds(500)}),
               failed, "rank 1 waited 0.5 s", "127.0.0.1:1", "rank 0 serves it");
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

}  // namespace
}  // namespace hydrascope::model::training
