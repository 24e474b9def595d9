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

}  // namespace
}  // namespace hydrascope::model::training
