// Defects of the order in which memory is written and read, one a test: found by wrong numbers under
// some schedule, or by ASan, UBSan or TSan, in the program that has it.
#include "kernels/device/vector_io.cuh"
#include "tests/emulator/small_kernels.h"
#include "tests/kernels/device_array.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace hydrascope::kernels::test {
namespace memory_defects_test {

using namespace device;

// ---- Found because memory is NaN before it is written, or because another order gives another
// result.

TEST(UnderSchedules, UninitialisedSharedMemoryIsNaN) {
  float seen = 0;
  float seen_as_bfloat16 = 0;
  run({2}, {32}, [&] {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
      block_shared<BlockParts>().values[0] = 1;
    } else {
      seen = block_shared<BlockParts>().values[0];
      BFloat16 value;
      std::memcpy(&value.bits, &block_shared<BlockParts>().values[1], sizeof value);
      seen_as_bfloat16 = static_cast<float>(value);
    }
  });
  EXPECT_TRUE(std::isnan(seen));
  EXPECT_TRUE(std::isnan(seen_as_bfloat16));
}

/// Whether both threads of a pair saw what the other one, in another warp, had written.
bool exchange_between_warps(bool with_barrier) {
  std::vector<float> y(64);
  run({1}, {64}, [&] {
    auto& values = block_shared<BlockParts>().values;
    values[threadIdx.x] = static_cast<float>(threadIdx.x);
    if (with_barrier)
      block_sync();
    else
      warp_sync();
    y[threadIdx.x] = values[63 - threadIdx.x];
  });
  for (int i = 0; i < 64; ++i) {
    if (y[i] != static_cast<float>(63 - i)) return false;
  }
  return true;
}

TEST(UnderSchedules, MissingBarrierIsWrongUnderSome) {
  EXPECT_EQ(wrong_schedules([] { return exchange_between_warps(true); }), 0);
  if (kSeesRaces) GTEST_SKIP() << "the race ends the program";
  EXPECT_GT(wrong_schedules([] { return exchange_between_warps(false); }), 0);
}

/// Whether every thread saw what its neighbour had copied.
bool exchange_of_copies(bool with_barrier) {
  const DeviceArray<float> x(std::vector<float>(128, 1.0F));
  std::vector<float> y(32);
  run({1}, {32}, [&] {
    auto& values = block_shared<BlockTile>().values;
    copy_async(values + 4 * threadIdx.x, x.data() + 4 * threadIdx.x, true);
    copy_commit();
    copy_wait<0>();
    if (with_barrier) block_sync();
    y[threadIdx.x] = values[127 - 4 * threadIdx.x];
  });
  return y == std::vector<float>(32, 1.0F);
}

TEST(UnderSchedules, MissingBarrierBehindACopyIsWrongUnderSome) {
  EXPECT_EQ(wrong_schedules([] { return exchange_of_copies(true); }), 0);
  if (kSeesRaces) GTEST_SKIP() << "the race ends the program";
  EXPECT_GT(wrong_schedules([] { return exchange_of_copies(false); }), 0);
}

/// Two blocks write to one place. Returns who came last.
float write_from_two_blocks() {
  float y = -1;
  run({2}, {64}, [&] {
    block_sync();
    if (threadIdx.x == 0) y = static_cast<float>(blockIdx.x);
  });
  return y;
}

TEST(UnderSchedules, TwoBlocksThatWriteToOnePlaceDifferUnderSome) {
  if (kSeesRaces) GTEST_SKIP() << "the race ends the program";
  bool seen[2] = {};
  for_each_schedule([&] { seen[static_cast<int>(write_from_two_blocks())] = true; });
  EXPECT_TRUE(seen[0] && seen[1]);
}

/// A block that reads what an earlier one has written, without waiting for it.
TEST(UnderSchedules, BlocksThatRelyOnTheirOrderAreWrongUnderSome) {
  if (kSeesRaces) GTEST_SKIP() << "the race ends the program";
  EXPECT_GT(wrong_schedules([] {
              float sums[3] = {};
              run({3}, {32}, [&] {
                if (threadIdx.x == 0)
                  sums[blockIdx.x] = 1 + (blockIdx.x > 0 ? sums[blockIdx.x - 1] : 0);
              });
              return sums[2] == 3;
            }),
            0);
}

// ---- Found by a sanitizer, which ends the program.

class Fatal : public testing::Test {
 protected:
  // The child starts anew: TSan would not look for races in a copy of a program with many fibers.
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};
class FatalToAsan : public Fatal {
 protected:
  void SetUp() override {
    if (!kSeesAddresses) GTEST_SKIP() << "needs ASan and UBSan";
    Fatal::SetUp();
  }
};
class FatalToTsan : public Fatal {
 protected:
  void SetUp() override {
    if (!kSeesRaces) GTEST_SKIP() << "needs TSan";
    Fatal::SetUp();
  }
};

TEST_F(FatalToAsan, SharedMemoryOutOfBounds) {
  const auto kernel = [] { block_shared<BlockParts>().values[threadIdx.x + 1] = 1; };
  const auto dies = [&] { run({1}, {64}, kernel); };
  EXPECT_DEATH(dies(), "(heap-buffer-overflow|index 64 out of bounds)");
  const auto by_pointer = [] {
    float* values = block_shared<BlockParts>().values;
    values[threadIdx.x + 1] = 1;
  };
  const auto dies_too = [&] { run({1}, {64}, by_pointer); };
  EXPECT_DEATH(dies_too(), "heap-buffer-overflow");
}

TEST_F(FatalToAsan, GlobalMemoryOutOfBounds) {
  DeviceArray<float> y(60);
  const auto dies = [&] { run({1}, {64}, [&] { y.data()[threadIdx.x] = 1; }); };
  EXPECT_DEATH(dies(), "use-after-poison");
  const auto dies_too = [&] { run({1}, {64}, [&] { y.data()[int(threadIdx.x) - 1] = 1; }); };
  EXPECT_DEATH(dies_too(), "use-after-poison");
}

TEST_F(FatalToAsan, MisalignedPack) {
  DeviceArray<float> x(std::vector<float>(64, 1.0F));
  const auto dies = [&] { run({1}, {32}, [&] { load_pack<4>(x.data() + threadIdx.x); }); };
  EXPECT_DEATH(dies(), "misaligned address");
}

TEST_F(FatalToTsan, MissingBarrier) { EXPECT_DEATH(exchange_between_warps(false), "data race"); }

TEST_F(FatalToTsan, MissingBarrierBehindACopy) {
  EXPECT_DEATH(exchange_of_copies(false), "data race");
}

// Shuffles, products and matrix loads do not order memory.
TEST_F(FatalToTsan, ShuffleInPlaceOfAWarpBarrier) {
  const auto dies = [] {
    run({1}, {32}, [] {
      auto& values = block_shared<BlockParts>().values;
      values[threadIdx.x] = shuffle_xor(1.0F, 1);
      shuffle_xor(values[31 - threadIdx.x], 1);
    });
  };
  EXPECT_DEATH(dies(), "data race");
}

TEST_F(FatalToTsan, MatrixLoadWithoutAWarpBarrier) {
  const auto dies = [] {
    run({1}, {32}, [] {
      auto& values = block_shared<BlockTile>().values;
      values[threadIdx.x] = 1;
      std::uint32_t words[4];
      load_matrices<false>(words, values + 4 * (31 - threadIdx.x));
    });
  };
  EXPECT_DEATH(dies(), "data race");
}

TEST_F(FatalToTsan, CopyIntoWhatOthersStillRead) {
  const auto dies = [] {
    const DeviceArray<float> x(std::vector<float>(128, 1.0F));
    run({1}, {32}, [&] {
      auto& values = block_shared<BlockTile>().values;
      for (int i = 0; i < 2; ++i) {
        copy_async(values + 4 * threadIdx.x, x.data() + 4 * threadIdx.x, true);
        copy_commit();
        copy_wait<0>();
        block_sync();
        shuffle_xor(values[127 - 4 * threadIdx.x], 1);
      }
    });
  };
  EXPECT_DEATH(dies(), "data race");
}

TEST_F(FatalToTsan, TwoBlocksThatWriteToOnePlace) {
  EXPECT_DEATH(write_from_two_blocks(), "data race");
}

// Blocks run one after the other here, so that the sum is right under every schedule.
TEST_F(FatalToTsan, TwoBlocksThatAddToOnePlace) {
  const auto dies = [] {
    float y = 0;
    run({2}, {64}, [&] {
      block_sync();
      if (threadIdx.x == 0) y += 1;
    });
  };
  EXPECT_DEATH(dies(), "data race");
}

TEST_F(FatalToTsan, ReadingTheSumsOfOtherBlocksWithoutLastBlock) {
  const auto dies = [] {
    // Apart, and on the heap: TSan remembers four accesses of every 8 bytes.
    std::vector<double> sums(2);
    double total = 0;
    run({2}, {64}, [&] {
      if (threadIdx.x == 3) sums[blockIdx.x] = 1;
      block_sync();
      if (threadIdx.x == 0 && blockIdx.x == 1) total = sums[0] + sums[1];
    });
  };
  EXPECT_DEATH(dies(), "data race");
}

}  // namespace memory_defects_test
}  // namespace hydrascope::kernels::test
