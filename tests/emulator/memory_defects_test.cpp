// Defects of the order in which memory is written and read, one a test: found by wrong numbers under
// some schedule, or by ASan, UBSan or TSan, in the program that has it.
#include "kernels/device/vector_io.cuh"
#include "tests/emulator/small_kernels.h"
#include "tests/kernels/device_array.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
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

TEST(UnderSchedules, MissingBarriersAreWrongUnderSome) {
  for (const auto exchange : {exchange_between_warps, exchange_of_copies}) {
    EXPECT_EQ(wrong_schedules([&] { return exchange(true); }), 0);
    if (!kSeesRaces) {
      EXPECT_GT(wrong_schedules([&] { return exchange(false); }), 0);
    }
  }
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
/// Every block reads what the one before has written, without waiting for it.
float sum_in_turns() {
  float sums[3] = {};
  run({3}, {32}, [&] {
    if (threadIdx.x == 0) sums[blockIdx.x] = 1 + (blockIdx.x > 0 ? sums[blockIdx.x - 1] : 0);
  });
  return sums[2];
}

TEST(UnderSchedules, BlocksThatRelyOnTheirOrderDifferUnderSome) {
  if (kSeesRaces) GTEST_SKIP() << "the race ends the program";
  EXPECT_GT(wrong_schedules([] { return write_from_two_blocks() == 1; }), 0);
  EXPECT_GT(wrong_schedules([] { return write_from_two_blocks() == 0; }), 0);
  EXPECT_GT(wrong_schedules([] { return sum_in_turns() == 3; }), 0);
}

// ---- Found by a sanitizer, which ends the program.

struct Defect {
  const char* name;
  std::function<void()> launch;
};

/// Each dies, by ASan or TSan, with that report.
void expect_deaths(const std::vector<Defect>& defects, const std::string& report) {
  // The child starts anew: TSan would not look for races in a copy of a program with many fibers.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const Defect& defect : defects) {
    SCOPED_TRACE(defect.name);
    EXPECT_DEATH(defect.launch(), report);
  }
}

TEST(Fatal, AddressesToAsanAndUbsan) {
  if (!kSeesAddresses) GTEST_SKIP() << "needs ASan and UBSan";
  DeviceArray<float> y(60);
  const DeviceArray<float> x(std::vector<float>(64, 1.0F));
  const auto shared_index = [] { block_shared<BlockParts>().values[threadIdx.x + 1] = 1; };
  const auto shared_pointer = [] {
    float* values = block_shared<BlockParts>().values;
    values[threadIdx.x + 1] = 1;
  };
  const auto write_global = [&](int first) {
    return [&y, first] { run({1}, {64}, [&] { y.data()[int(threadIdx.x) + first] = 1; }); };
  };
  expect_deaths({{"behind an array", [&] { run({1}, {64}, shared_index); }}},
                "(heap-buffer-overflow|index 64 out of bounds)");
  expect_deaths({{"behind shared memory", [&] { run({1}, {64}, shared_pointer); }}},
                "heap-buffer-overflow");
  expect_deaths({{"behind global memory", write_global(0)}, {"before it", write_global(-1)}},
                "use-after-poison");
  expect_deaths(
      {{"misaligned pack", [&] { run({1}, {32}, [&] { load_pack<4>(x.data() + threadIdx.x); }); }}},
      "misaligned address");
}

// Shuffles, products and matrix loads do not order memory.
void shuffle_in_place_of_a_warp_barrier() {
  run({1}, {32}, [] {
    auto& values = block_shared<BlockParts>().values;
    values[threadIdx.x] = shuffle_xor(1.0F, 1);
    shuffle_xor(values[31 - threadIdx.x], 1);
  });
}

void matrix_load_without_a_warp_barrier() {
  run({1}, {32}, [] {
    auto& values = block_shared<BlockTile>().values;
    values[threadIdx.x] = 1;
    std::uint32_t words[4];
    load_matrices<false>(words, values + 4 * (31 - threadIdx.x));
  });
}

void copy_into_what_others_still_read() {
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
}

// Blocks run one after the other here, so that the sum is right under every schedule.
void add_to_one_place_from_two_blocks() {
  float y = 0;
  run({2}, {64}, [&] {
    block_sync();
    if (threadIdx.x == 0) y += 1;
  });
}

void read_sums_of_other_blocks_without_last_block() {
  // Apart, and on the heap: TSan remembers four accesses of every 8 bytes.
  std::vector<double> sums(2);
  double total = 0;
  run({2}, {64}, [&] {
    if (threadIdx.x == 3) sums[blockIdx.x] = 1;
    block_sync();
    if (threadIdx.x == 0 && blockIdx.x == 1) total = sums[0] + sums[1];
  });
}

TEST(Fatal, RacesToTsan) {
  if (!kSeesRaces) GTEST_SKIP() << "needs TSan";
  expect_deaths({{"no barrier", [] { exchange_between_warps(false); }},
                 {"no barrier behind a copy", [] { exchange_of_copies(false); }},
                 {"shuffle", shuffle_in_place_of_a_warp_barrier},
                 {"matrix load", matrix_load_without_a_warp_barrier},
                 {"copy into what others read", copy_into_what_others_still_read},
                 {"two blocks write", [] { write_from_two_blocks(); }},
                 {"two blocks add", add_to_one_place_from_two_blocks},
                 {"sums of others", read_sums_of_other_blocks_without_last_block}},
                "data race");
}

}  // namespace memory_defects_test
}  // namespace hydrascope::kernels::test
