// Defects that kernels have and the emulator itself reports, as an Error.
#include "kernels/device/vector_io.cuh"
#include "tests/emulator/small_kernels.h"
#include "tests/kernels/device_array.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <vector>

namespace hydrascope::kernels::test {
namespace defects_test {

using namespace device;
using testing::HasSubstr;
using testing::IsEmpty;

/// After whatever went wrong, the next launch is as if nothing had been.
void expect_clean_state() {
  std::vector<float> y(64);
  const auto sums = [&] {
    block_shared<BlockParts>().values[threadIdx.x] = 1;
    block_sync();
    const float sum = warp_reduce(block_shared<BlockParts>().values[63 - threadIdx.x], Sum{});
    y[threadIdx.x] = sum;
  };
  EXPECT_THAT(failure_of({1}, {64}, sums), IsEmpty());
  EXPECT_EQ(y, std::vector<float>(64, 32));
}

struct Defect {
  Extent grid;
  Extent block;
  std::function<void()> kernel;
  std::vector<std::string> report;  ///< what it says, among other words
};

void expect_reports(const std::vector<Defect>& defects) {
  for (const Defect& defect : defects) {
    SCOPED_TRACE(defect.report.front());
    const std::string found = failure_of(defect.grid, defect.block, defect.kernel);
    for (const std::string& words : defect.report) EXPECT_THAT(found, HasSubstr(words));
    expect_clean_state();
  }
}

TEST(Reported, BarriersOfTheBlock) {
  const auto in_a_branch = [] {
    if (threadIdx.x < 32) block_sync();
  };
  const auto behind_a_return = [] {
    if (blockIdx.x * 64 + threadIdx.x >= 100) return;
    block_sync();
  };
  const auto two_for_one = [] {
    if (threadIdx.y == 0)
      block_sync();
    else
      block_sync();
  };
  expect_reports({
      {{4},
       {64},
       in_a_branch,
       {"small_kernel: block (0,0,0), thread (0,0,0): waits at the barrier of ",
        "defects_test.cpp:", "(32,0,0) never reaches"}},
      {{2},
       {64},
       behind_a_return,
       {"thread (36,0,0) never reaches: it has returned", "block (1,0,0)"}},
      {{1},
       {32, 2},
       two_for_one,
       {"thread (0,1,0): waits at the barrier of", "but thread (0,0,0) at that of"}},
  });
}

TEST(Reported, CollectivesOfAWarp) {
  const auto some_return = [] {
    if (lane_index() < 30) shuffle_xor(1.0F, 1);
  };
  const auto one_has_returned = [] {
    if (lane_index() == 0) return;
    shuffle_xor(1.0F, 1);
  };
  const auto two_for_one = [] {
    if (lane_index() < 16)
      shuffle_xor(1.0F, 1);
    else
      shuffle_xor(2.0F, 1);
  };
  const auto deadlock = [] {
    if (lane_index() < 16)
      warp_sync();
    else
      block_sync();
  };
  const std::string waits = "(0,0,0) of its warp waits for it at the shuffle";
  expect_reports({
      {{1}, {64}, some_return, {waits}},
      {{1}, {64}, one_has_returned, {"for lane 0, which has returned"}},
      {{1}, {32}, two_for_one, {waits + " of", "(16,0,0): is at the shuffle of"}},
      {{1}, {40}, [] { warp_sync(); }, {"names lane 8 in the warp barrier"}},
      {{1}, {32}, [] { shuffle_xor(1.0F, 32); }, {"(0,0,0): asks lane 32"}},
      {{1},
       {64},
       deadlock,
       {"deadlock: waits at the warp barrier of",
        "for lane 16, thread (16,0,0), which waits at the barrier of"}},
  });
}

TEST(Reported, SharedMemory) {
  alignas(16) float global[256] = {};
  std::uint32_t words[4];
  const auto two_types = [] {
    block_shared<BlockParts>();
    block_shared<BlockTile>();
  };
  const auto load = [&](int from) {
    return [&, from] { load_matrices<false>(words, block_shared<BlockTile>().values + from); };
  };
  expect_reports({
      {{1}, {32}, two_types, {"takes the block's shared memory for"}},
      {{1},
       {32},
       [&] { load_matrices<false>(words, global + 4 * lane_index()); },
       {"outside of the block's shared memory"}},
      {{1}, {32}, load(256 - 2), {"outside of the block's shared memory"}},
      {{1}, {32}, load(1), {"not aligned to 16 bytes"}},
  });
}

/// Every lane of a warp copies its 16 bytes and does `then`.
template <class Then>
std::function<void()> copying(const DeviceArray<float>& x, Then then, int to_offset = 0,
                              int from_offset = 0) {
  return [&x, then, to_offset, from_offset] {
    float* own = block_shared<BlockTile>().values + 4 * lane_index();
    copy_async(own + to_offset, x.data() + 4 * lane_index() + from_offset, true);
    then(own);
  };
}

TEST(Reported, CopiesInTheBackground) {
  const DeviceArray<float> x(std::vector<float>(128, 1.0F));
  const auto nothing = [](const float*) {};
  std::vector<Defect> defects = {
      {{1},
       {32},
       copying(x, [](const float*) { copy_commit(); }),
       {"returns without waiting for its copy of"}},
      {{1},
       {32},
       copying(x, [](const float*) { copy_wait<0>(); }),
       {"which is in no committed group"}},
      {{1}, {32}, copying(x, nothing, 1), {"copies to an address that is not aligned"}},
      {{1}, {32}, copying(x, nothing, 0, 2), {"copies from an address that is not aligned"}},
      {{1}, {32}, copying(x, nothing, 256), {"copies to a place outside"}},
  };
  if (kSeesAddresses)
    defects.push_back(
        {{1}, {32}, copying(x, nothing, 0, 128), {"copies from memory that it may not read"}});
  expect_reports(defects);
}

TEST(Copies, AreNaNUntilTheyAreWaitedFor) {
  const DeviceArray<float> x(std::vector<float>(128, 1.0F));
  float seen[3] = {};  // before any wait, behind too weak a one, behind the right one
  const auto look = [&](const float* own) {
    copy_commit();
    if (lane_index() == 0) seen[0] = own[3];
    copy_wait<1>();
    if (lane_index() == 0) seen[1] = own[3];
    copy_wait<0>();
    if (lane_index() == 0) seen[2] = own[3];
  };
  EXPECT_THAT(failure_of({1}, {32}, copying(x, look)), IsEmpty());
  EXPECT_TRUE(std::isnan(seen[0]) && std::isnan(seen[1]));
  EXPECT_EQ(seen[2], 1);
}

TEST(Copies, OfNothingAreZeros) {
  float seen = -1;
  const auto kernel = [&] {
    float* own = block_shared<BlockTile>().values + 4 * lane_index();
    copy_async(own, nullptr, false);
    copy_commit();
    copy_wait<0>();
    if (lane_index() == 5) seen = own[3];
  };
  EXPECT_THAT(failure_of({1}, {32}, kernel), IsEmpty());
  EXPECT_EQ(seen, 0);
}

void nothing_kernel(const int) {}

TEST(Reported, CountersAndLaunches) {
  unsigned begins_at_two = 2;
  unsigned too_few = 0;
  unsigned changing = 0;
  expect_reports({
      {{3}, {32}, [&] { last_block(&begins_at_two, gridDim.x); }, {"begins at 2, not at 0"}},
      {{3}, {32}, [&] { last_block(&too_few, gridDim.x + 1); }, {"ends at 3, not at 0"}},
      {{3}, {32}, [&] { last_block(&changing, 3 - blockIdx.x); }, {"counts to 2 blocks"}},
  });
  std::string inner;
  const auto launches = [&] {
    if (threadIdx.x == 0) inner = failure_of({1}, {32}, [] {});
  };
  EXPECT_THAT(failure_of({1}, {32}, launches), IsEmpty());
  EXPECT_THAT(inner, HasSubstr("a kernel launches another one"));
  EXPECT_THROW(device::launch("nothing_kernel", nothing_kernel, {{1}, {1025}}, nullptr, 0), Error);
  EXPECT_THROW(device::launch("nothing_kernel", nothing_kernel, {{0}, {32}}, nullptr, 0), Error);
}

}  // namespace defects_test
}  // namespace hydrascope::kernels::test
