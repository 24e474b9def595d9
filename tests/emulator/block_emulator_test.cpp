// The emulator's words are CUDA's, and it finds what it is there for: a barrier that threads miss, a bad
// address, a race. Defects that it reports itself are Errors; ASan, UBSan and TSan end the program that
// has theirs. Sums, last_block and barriers that are right are in the tests of kernels.
#include "kernels/device/block.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/tensor_core.cuh"
#include "kernels/device/vector_io.cuh"
#include "kernels/error.h"
#include "tests/kernels/device_array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace hydrascope::kernels::test {
namespace block_emulator_test {

using namespace device;

/// The shared memory of a block.
struct BlockParts {
  float values[64];
};
struct alignas(16) BlockTile {
  float values[32 * 4 * 2];
};

#ifdef __SANITIZE_ADDRESS__
constexpr bool kSeesAddresses = true;
#else
constexpr bool kSeesAddresses = false;
#endif
#ifdef __SANITIZE_THREAD__
constexpr bool kSeesRaces = true;
#else
constexpr bool kSeesRaces = false;
#endif

/// Kernels are lambdas here, in place of functions with parameters.
template <class Kernel>
void run(Extent grid, Extent block, const Kernel& kernel) {
  emulator::launch("small_kernel", {grid, block}, kernel);
}

/// The emulator's complaint; empty: none.
template <class Kernel>
std::string failure_of(Extent grid, Extent block, const Kernel& kernel) {
  try {
    run(grid, block, kernel);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal);
    EXPECT_EQ(error.subject(), "small_kernel");
    return error.what();
  }
  return {};
}

/// Under how many schedules `right()`, which runs a kernel, is false.
template <class Right>
int wrong_schedules(const Right& right) {
  int wrong = 0;
  for (const unsigned schedule : {0U, 1U, 2U, 3U, 100U, 101U}) {
    emulator::set_schedule(schedule);
    if (!right()) ++wrong;
  }
  emulator::set_schedule(0);
  return wrong;
}

// ---- CUDA's words.

TEST(BlockEmulator, IndicesAndShufflesAreThoseOfCuda) {
  std::vector<unsigned> x(3 * 2 * 2 * 4 * 3 * 2);
  run({3, 2, 2}, {4, 3, 2}, [&] {
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    x[block * 24 + thread] += block * 24 + thread;
  });
  std::vector<unsigned> expected(x.size());
  std::iota(expected.begin(), expected.end(), 0U);
  EXPECT_EQ(x, expected);
  std::vector<float> found(32);
  run({1}, {32}, [&] {
    const int lane = lane_index();
    found[lane] = shuffle_xor(shuffle_xor(static_cast<float>(lane), 1), 16);
  });
  for (int lane = 0; lane < 32; ++lane) EXPECT_EQ(found[lane], static_cast<float>(lane ^ 17));
}

template <class T>
struct alignas(16) Matrices {
  T a[16][16];
  T b[16][16];
};

template <class T>
class MatrixProduct : public ::testing::Test {};
using StorageTypes = ::testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(MatrixProduct, StorageTypes);

TYPED_TEST(MatrixProduct, IsThatOfNaiveLoops) {
  using T = TypeParam;
  // Integers and halves that both types hold exactly, so that sums are exact in any order.
  std::vector<T> a(256);
  std::vector<T> b(256);
  for (int i = 0; i < 256; ++i) {
    a[i] = T(static_cast<float>(i * 7 % 23 - 11) / 2);
    b[i] = T(static_cast<float>(i * 5 % 19 - 9));
  }
  EXPECT_EQ(wrong_schedules([&] {
              std::vector<float> c(256);
              run({1}, {32}, [&] {
                auto& shared = block_shared<Matrices<T>>();
                for (unsigned i = threadIdx.x; i < 256; i += 32) {
                  shared.a[i / 16][i % 16] = a[i];
                  shared.b[i / 16][i % 16] = b[i];
                }
                warp_sync();
                const int lane = lane_index();
                std::uint32_t a_words[4];
                std::uint32_t b_words[4];
                load_matrices<false>(a_words, &shared.a[lane % 16][lane / 16 * 8]);
                load_matrices<true>(b_words, &shared.b[lane % 16][lane / 16 * 8]);
                for (int half = 0; half < 2; ++half) {
                  float d[4] = {1, 1, 1, 1};
                  const std::uint32_t b_half[2] = {b_words[2 * half], b_words[2 * half + 1]};
                  multiply_add<T>(d, a_words, b_half);
                  for (int i = 0; i < 4; ++i)
                    c[(lane / 4 + i / 2 * 8) * 16 + half * 8 + lane % 4 * 2 + i % 2] = d[i];
                }
              });
              for (int i = 0; i < 256; ++i) {
                float expected = 1;
                for (int k = 0; k < 16; ++k)
                  expected += static_cast<float>(a[i / 16 * 16 + k]) *
                              static_cast<float>(b[k * 16 + i % 16]);
                if (c[i] != expected) return false;
              }
              return true;
            }),
            0);
}

TEST(BlockEmulator, MatrixLoadsGiveEveryLaneItsWords) {
  struct alignas(16) Rows {
    std::uint16_t values[4][8][8];
  };
  run({1}, {32}, [&] {
    auto& values = block_shared<Rows>().values;
    const int lane = lane_index();
    for (int i = 0; i < 8; ++i)
      values[lane / 8][lane % 8][i] = static_cast<std::uint16_t>(lane * 8 + i);
    warp_sync();
    std::uint32_t words[4];
    const int g = lane / 4;
    const int p = 2 * (lane % 4);
    const auto pair = [](int low, int high) {
      return static_cast<std::uint32_t>(low | high << 16);
    };
    load_matrices<false>(words, values[lane / 8][lane % 8]);
    for (int m = 0; m < 4; ++m)
      EXPECT_EQ(words[m], pair(m * 64 + g * 8 + p, m * 64 + g * 8 + p + 1));
    load_matrices<true>(words, values[lane / 8][lane % 8]);
    for (int m = 0; m < 4; ++m)
      EXPECT_EQ(words[m], pair(m * 64 + p * 8 + g, m * 64 + (p + 1) * 8 + g));
  });
}

// ---- What the emulator reports.

TEST(BlockEmulator, ReportsDefects) {
  const DeviceArray<float> x(std::vector<float>(128, 1.0F));
  const auto copy = [&](int offset, bool commit) {
    return [&x, offset, commit] {
      copy_async(block_shared<BlockTile>().values + 4 * lane_index() + offset,
                 x.data() + 4 * lane_index(), true);
      if (commit) copy_commit();
    };
  };
  struct Defect {
    Extent grid;
    Extent block;
    std::function<void()> kernel;
    std::string report;
  };
  unsigned counter = 2;
  const Defect defects[] = {
      {{4},
       {64},
       [] {
         if (threadIdx.x < 32) block_sync();
       },
       "(32,0,0) never reaches"},
      {{1},
       {32, 2},
       [] {
         if (threadIdx.y == 0)
           block_sync();
         else
           block_sync();
       },
       "but thread (0,0,0) at that of"},
      {{1},
       {64},
       [] {
         if (lane_index() != 0) shuffle_xor(1.0F, 1);
       },
       "for lane 0, which has returned"},
      {{1},
       {64},
       [] {
         if (lane_index() < 16)
           warp_sync();
         else
           block_sync();
       },
       "deadlock: waits at the warp barrier of"},
      {{1},
       {32},
       [] {
         block_shared<BlockParts>();
         block_shared<BlockTile>();
       },
       "takes the block's shared memory for"},
      {{1},
       {32},
       [] {
         std::uint32_t words[4];
         load_matrices<false>(words, block_shared<BlockTile>().values + 254);
       },
       "outside of the block's shared memory"},
      {{1}, {32}, copy(0, true), "returns without waiting for its copy of"},
      {{1}, {32}, copy(0, false), "which is in no committed group"},
      {{1}, {32}, copy(1, true), "copies to an address that is not aligned"},
      {{3}, {32}, [&] { last_block(&counter, gridDim.x); }, "begins at 2, not at 0"},
  };
  for (const Defect& defect : defects) {
    EXPECT_THAT(failure_of(defect.grid, defect.block, defect.kernel),
                testing::HasSubstr(defect.report));
    // After whatever went wrong, the next launch is as if nothing had been.
    std::vector<float> y(64);
    run({1}, {64}, [&] {
      block_shared<BlockParts>().values[threadIdx.x] = 1;
      block_sync();
      const float sum = warp_reduce(block_shared<BlockParts>().values[63 - threadIdx.x], Sum{});
      y[threadIdx.x] = sum;
    });
    EXPECT_EQ(y, std::vector<float>(64, 32));
  }
}

TEST(BlockEmulator, SharedMemoryAndCopiesAreNaNUntilTheyAreThere) {
  const DeviceArray<float> x(std::vector<float>(128, 1.0F));
  float seen[4] = {};  // unwritten; before any wait, behind too weak a one, behind the right one
  run({1}, {32}, [&] {
    float* own = block_shared<BlockTile>().values + 4 * lane_index();
    if (lane_index() == 0) seen[0] = own[3];
    copy_async(own, x.data() + 4 * lane_index(), true);
    copy_commit();
    if (lane_index() == 0) seen[1] = own[3];
    copy_wait<1>();
    if (lane_index() == 0) seen[2] = own[3];
    copy_wait<0>();
    if (lane_index() == 0) seen[3] = own[3];
  });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(seen[i])) << i;
  EXPECT_EQ(seen[3], 1);
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

TEST(BlockEmulator, AMissingBarrierIsWrongUnderSomeSchedule) {
  EXPECT_EQ(wrong_schedules([&] { return exchange_between_warps(true); }), 0);
  if (!kSeesRaces) {
    EXPECT_GT(wrong_schedules([&] { return exchange_between_warps(false); }), 0);
  }
}

// ---- What a sanitizer reports.

/// Each dies, by ASan or TSan, with that report.
void expect_deaths(const std::vector<std::function<void()>>& launches, const std::string& report) {
  // The child starts anew: TSan would not look for races in a copy of a program with many fibers.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (std::size_t i = 0; i < launches.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_DEATH(launches[i](), report);
  }
}

TEST(BlockEmulatorDeath, BadAddressesToAsanAndUbsan) {
  if (!kSeesAddresses) GTEST_SKIP() << "needs ASan and UBSan";
  DeviceArray<float> y(60);
  const DeviceArray<float> x(std::vector<float>(64, 1.0F));
  const auto behind_shared_memory = [] {
    float* values = block_shared<BlockParts>().values;
    values[threadIdx.x + 1] = 1;
  };
  expect_deaths({[&] { run({1}, {64}, behind_shared_memory); }}, "heap-buffer-overflow");
  expect_deaths({[&] { run({1}, {64}, [&] { y.data()[threadIdx.x] = 1; }); },
                 [&] { run({1}, {64}, [&] { y.data()[int(threadIdx.x) - 1] = 1; }); }},
                "use-after-poison");
  expect_deaths({[&] { run({1}, {32}, [&] { load_pack<4>(x.data() + threadIdx.x); }); }},
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

TEST(BlockEmulatorDeath, RacesToTsan) {
  if (!kSeesRaces) GTEST_SKIP() << "needs TSan";
  expect_deaths({[] { exchange_between_warps(false); }, shuffle_in_place_of_a_warp_barrier,
                 copy_into_what_others_still_read, add_to_one_place_from_two_blocks,
                 read_sums_of_other_blocks_without_last_block},
                "data race");
}

}  // namespace block_emulator_test
}  // namespace hydrascope::kernels::test
