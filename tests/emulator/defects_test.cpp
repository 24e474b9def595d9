// Defects that kernels have and the emulator itself reports, as an Error, one a test.
#include "kernels/device/vector_io.cuh"
#include "tests/emulator/small_kernels.h"
#include "tests/kernels/device_array.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

namespace hydrascope::kernels::test {
namespace defects_test {

using namespace device;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr unsigned kWarp = 0xffffffffU;

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

class Reported : public testing::Test {
 protected:
  void TearDown() override { expect_clean_state(); }
};

// ---- Barriers of the block.

TEST_F(Reported, BarrierInABranch) {
  EXPECT_THAT(
      failure_of({4}, {64},
                 [] {
                   if (threadIdx.x < 32) block_sync();
                 }),
      AllOf(HasSubstr("small_kernel: block (0,0,0), thread (0,0,0): waits at the barrier of "),
            HasSubstr("defects_test.cpp:"), HasSubstr("(32,0,0) never reaches")));
}

TEST_F(Reported, EarlyReturnBeforeABarrier) {
  const auto kernel = [] {
    if (blockIdx.x * 64 + threadIdx.x >= 100) return;
    block_sync();
  };
  EXPECT_THAT(failure_of({2}, {64}, kernel),
              AllOf(HasSubstr("block (1,0,0)"),
                    HasSubstr("thread (36,0,0) never reaches: it has returned")));
}

TEST_F(Reported, TwoBarriersThatShouldBeOne) {
  const auto kernel = [] {
    if (threadIdx.y == 0)
      block_sync();
    else
      block_sync();
  };
  EXPECT_THAT(failure_of({1}, {32, 2}, kernel),
              AllOf(HasSubstr("thread (0,1,0): waits at the barrier of"),
                    HasSubstr("but thread (0,0,0) at that of")));
}

// ---- Collectives of a warp.

TEST_F(Reported, LaneThatReturnsBeforeACollective) {
  const auto kernel = [] {
    if (lane_index() < 30) shuffle_xor(1.0F, 1);
  };
  EXPECT_THAT(failure_of({1}, {64}, kernel),
              HasSubstr("(0,0,0) of its warp waits for it at the shuffle"));
}

TEST_F(Reported, LaneThatHasReturned) {
  const auto kernel = [] {
    if (lane_index() == 0) return;
    shuffle_xor(1.0F, 1);
  };
  EXPECT_THAT(failure_of({1}, {64}, kernel), HasSubstr("for lane 0, which has returned"));
}

TEST_F(Reported, LanesAtDifferentCollectives) {
  const auto kernel = [] {
    if (lane_index() < 16)
      shuffle_xor(1.0F, 1);
    else
      shuffle_xor(2.0F, 1);
  };
  EXPECT_THAT(failure_of({1}, {32}, kernel),
              AllOf(HasSubstr("(16,0,0): is at the shuffle of"),
                    HasSubstr("(0,0,0) of its warp waits for it at the shuffle of")));
}

TEST_F(Reported, LanesWithDifferentMasks) {
  const auto kernel = [] {
    emulator::warp_barrier(lane_index() < 16 ? kWarp : 0xffff0000U, emulator::Site::current());
  };
  EXPECT_THAT(failure_of({1}, {32}, kernel),
              AllOf(HasSubstr("(ffffffff)"), HasSubstr("(ffff0000)")));
}

TEST_F(Reported, LaneOutsideOfItsMask) {
  const auto kernel = [] { emulator::warp_barrier(0xffffU, emulator::Site::current()); };
  EXPECT_THAT(failure_of({1}, {32}, kernel), HasSubstr("thread (16,0,0): is not in the mask"));
}

TEST_F(Reported, WholeWarpCollectiveInAPartOfAWarp) {
  EXPECT_THAT(failure_of({1}, {40}, [] { warp_sync(); }),
              HasSubstr("names lane 8 in the warp barrier"));
}

TEST_F(Reported, WrongSourceLane) {
  EXPECT_THAT(failure_of({1}, {32}, [] { shuffle(1.0F, lane_index() + 1); }),
              HasSubstr("(31,0,0): asks lane 32"));
  const auto outside = [] {
    if (lane_index() < 16) emulator::shuffle(0xffffU, 1.0F, 20, emulator::Site::current());
  };
  EXPECT_THAT(failure_of({1}, {32}, outside), HasSubstr("asks lane 20"));
}

TEST_F(Reported, Deadlock) {
  const auto kernel = [] {
    if (lane_index() < 16)
      warp_sync();
    else
      block_sync();
  };
  EXPECT_THAT(failure_of({1}, {64}, kernel),
              AllOf(HasSubstr("deadlock: waits at the warp barrier of"),
                    HasSubstr("for lane 16, thread (16,0,0), which waits at the barrier of")));
}

// ---- Shared memory.

TEST_F(Reported, SharedMemoryAsTwoTypes) {
  const auto kernel = [] {
    block_shared<BlockParts>();
    block_shared<BlockTile>();
  };
  EXPECT_THAT(failure_of({1}, {32}, kernel), HasSubstr("takes the block's shared memory for"));
}

TEST_F(Reported, MatrixLoadFromElsewhere) {
  alignas(16) float global[256] = {};
  std::uint32_t words[4];
  EXPECT_THAT(
      failure_of({1}, {32}, [&] { load_matrices<false>(words, global + 4 * lane_index()); }),
      HasSubstr("outside of the block's shared memory"));
  const auto behind = [&] {
    load_matrices<false>(words, block_shared<BlockTile>().values + 256 - 2);
  };
  EXPECT_THAT(failure_of({1}, {32}, behind), HasSubstr("outside of the block's shared memory"));
}

TEST_F(Reported, MisalignedMatrixLoad) {
  std::uint32_t words[4];
  const auto kernel = [&] {
    load_matrices<false>(words, block_shared<BlockTile>().values + lane_index());
  };
  EXPECT_THAT(failure_of({1}, {32}, kernel), HasSubstr("not aligned to 16 bytes"));
}

// ---- Copies in the background.

class Copies : public Reported {
 protected:
  Copies() : x(std::vector<float>(128, 1.0F)) {}
  /// What one thread of a warp sees after every lane copied its 16 bytes and did `then`.
  template <class Then>
  std::string copy(Then then, int to_offset = 0, int from_offset = 0) {
    return failure_of({1}, {32}, [&] {
      float* own = block_shared<BlockTile>().values + 4 * lane_index();
      copy_async(own + to_offset, x.data() + 4 * lane_index() + from_offset, true);
      then(own);
    });
  }
  DeviceArray<float> x;
};

TEST_F(Copies, ReadBeforeTheWaitAreNaN) {
  float early = 0;
  float late = 0;
  EXPECT_THAT(copy([&](const float* own) {
                copy_commit();
                if (lane_index() == 0) early = own[3];
                copy_wait<0>();
                if (lane_index() == 0) late = own[3];
              }),
              IsEmpty());
  EXPECT_TRUE(std::isnan(early));
  EXPECT_EQ(late, 1);
}

TEST_F(Copies, ReadAfterTooWeakAWaitAreNaN) {
  float early = 0;
  EXPECT_THAT(copy([&](const float* own) {
                copy_commit();
                copy_wait<1>();
                if (lane_index() == 0) early = own[3];
                copy_wait<0>();
              }),
              IsEmpty());
  EXPECT_TRUE(std::isnan(early));
}

TEST_F(Copies, OutsideAreZeros) {
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

TEST_F(Copies, NeverWaitedFor) {
  EXPECT_THAT(copy([](float*) { copy_commit(); }),
              HasSubstr("returns without waiting for its copy of"));
}

TEST_F(Copies, NeverCommitted) {
  EXPECT_THAT(copy([](float*) { copy_wait<0>(); }), HasSubstr("which is in no committed group"));
}

TEST_F(Copies, Misaligned) {
  EXPECT_THAT(copy([](float*) {}, 1), HasSubstr("copies to an address that is not aligned"));
  EXPECT_THAT(copy([](float*) {}, 0, 2), HasSubstr("copies from an address that is not aligned"));
}

TEST_F(Copies, ToElsewhere) {
  EXPECT_THAT(copy([](float*) {}, 256), HasSubstr("copies to a place outside"));
}

TEST_F(Copies, FromElsewhere) {
  if (!kSeesAddresses) GTEST_SKIP() << "needs ASan";
  EXPECT_THAT(copy([](float*) {}, 0, 128), HasSubstr("copies from memory that it may not read"));
}

// ---- Counters, launches.

TEST_F(Reported, CounterThatWasNotReset) {
  unsigned counter = 2;
  const auto kernel = [&] { last_block(&counter, gridDim.x); };
  EXPECT_THAT(failure_of({3}, {32}, kernel), HasSubstr("begins at 2, not at 0"));
}

TEST_F(Reported, CounterOfMoreBlocksThanThereAre) {
  unsigned counter = 0;
  const auto kernel = [&] { last_block(&counter, gridDim.x + 1); };
  EXPECT_THAT(failure_of({3}, {32}, kernel), HasSubstr("ends at 3, not at 0"));
}

TEST_F(Reported, CounterWithChangingNumbersOfBlocks) {
  unsigned counter = 0;
  const auto kernel = [&] { last_block(&counter, 3 - blockIdx.x); };
  EXPECT_THAT(failure_of({3}, {32}, kernel), HasSubstr("counts to 2 blocks"));
}

TEST_F(Reported, LaunchFromAKernel) {
  std::string inner;
  const auto kernel = [&] {
    if (threadIdx.x == 0) inner = failure_of({1}, {32}, [] {});
  };
  EXPECT_THAT(failure_of({1}, {32}, kernel), IsEmpty());
  EXPECT_THAT(inner, HasSubstr("a kernel launches another one"));
}

void nothing_kernel(const int) {}

TEST_F(Reported, IllegalGeometry) {
  EXPECT_THROW(device::launch("nothing_kernel", nothing_kernel, {{1}, {1025}}, nullptr, 0), Error);
  EXPECT_THROW(device::launch("nothing_kernel", nothing_kernel, {{0}, {32}}, nullptr, 0), Error);
}

}  // namespace defects_test
}  // namespace hydrascope::kernels::test
