// Correct kernels give the right result under every schedule, and no sanitizer complains.
#include "tests/emulator/small_kernels.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace hydrascope::kernels::test {
namespace {

using namespace device;

TEST(BlockEmulator, IndicesAreThoseOfCuda) {
  std::vector<unsigned> x(3 * 2 * 2 * 4 * 3 * 2);
  run({3, 2, 2}, {4, 3, 2}, [&] {
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    x[block * 24 + thread] += block * 24 + thread;
    if (emulator::lane() != static_cast<int>(thread)) x[0] = 1;
  });
  std::vector<unsigned> expected(x.size());
  std::iota(expected.begin(), expected.end(), 0U);
  EXPECT_EQ(x, expected);
}

struct Parts {
  float sums[8];
};

// A loop over the grid, a tree in the warp, the warps' sums by shared memory.
float block_sum(const std::vector<float>& x) {
  Parts& shared = block_shared<Parts>();
  float sum = 0;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < x.size();
       i += gridDim.x * blockDim.x)
    sum += x[i];
  sum = warp_reduce(sum, Sum{});
  if (lane_index() == 0) shared.sums[warp_index()] = sum;
  block_sync();
  float total = 0;
  for (const float part : shared.sums) total += part;
  return total;
}

TEST(BlockEmulator, Reduction) {
  std::vector<float> x(1000);
  std::iota(x.begin(), x.end(), 1.0F);
  EXPECT_EQ(wrong_schedules([&] {
              std::vector<float> sums(3);
              run({3}, {256}, [&] {
                const float sum = block_sum(x);
                if (threadIdx.x == 0) sums[blockIdx.x] = sum;
              });
              return sums[0] + sums[1] + sums[2] == 500500.0F;
            }),
            0);
}

TEST(BlockEmulator, LastBlockReduction) {
  const std::vector<float> x(5000, 1.0F);
  unsigned counter = 0;
  EXPECT_EQ(wrong_schedules([&] {
              std::vector<float> sums(9);
              float total = 0;
              for (int launch = 0; launch < 2; ++launch) {
                run({9}, {256}, [&] {
                  const float sum = block_sum(x);
                  if (threadIdx.x == 7) sums[blockIdx.x] = sum;
                  if (!last_block(&counter, gridDim.x)) return;
                  if (threadIdx.x == 100) total += std::accumulate(sums.begin(), sums.end(), 0.0F);
                });
              }
              return total == 10000 && counter == 0;
            }),
            0);
}

struct Tile {
  float values[32][33];
};

TEST(BlockEmulator, TiledTransposition) {
  constexpr unsigned kRows = 70;
  constexpr unsigned kColumns = 45;
  std::vector<float> x(kRows * kColumns);
  std::iota(x.begin(), x.end(), 0.0F);
  EXPECT_EQ(wrong_schedules([&] {
              std::vector<float> y(x.size(), -1);
              run({2, 3}, {32, 8}, [&] {
                auto& tile = block_shared<Tile>().values;
                const unsigned column = blockIdx.x * 32 + threadIdx.x;
                for (unsigned row = threadIdx.y; row < 32; row += blockDim.y) {
                  if (blockIdx.y * 32 + row < kRows && column < kColumns)
                    tile[row][threadIdx.x] = x[(blockIdx.y * 32 + row) * kColumns + column];
                }
                block_sync();
                const unsigned y_column = blockIdx.y * 32 + threadIdx.x;
                for (unsigned row = threadIdx.y; row < 32; row += blockDim.y) {
                  if (blockIdx.x * 32 + row < kColumns && y_column < kRows)
                    y[(blockIdx.x * 32 + row) * kRows + y_column] = tile[threadIdx.x][row];
                }
              });
              for (unsigned i = 0; i < x.size(); ++i) {
                if (y[i % kColumns * kRows + i / kColumns] != x[i]) return false;
              }
              return true;
            }),
            0);
}

template <class T>
struct alignas(16) Matrices {
  T a[16][16];
  T b[16][16];
};

template <class T>
class MatrixProduct : public testing::Test {};
using StorageTypes = testing::Types<BFloat16, Float16>;
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

TEST(BlockEmulator, DoubleBufferedCopies) {
  struct alignas(16) Stages {
    float tiles[2][64 * 4];
  };
  constexpr int kTiles = 5;
  constexpr int kValues = 64 * 4 * kTiles - 8;  // two threads have nothing to copy at the end
  std::vector<float> x(kValues);
  std::iota(x.begin(), x.end(), 0.0F);
  EXPECT_EQ(wrong_schedules([&] {
              std::vector<float> y(64 * 4, 0.0F);
              run({1}, {64}, [&] {
                auto& tiles = block_shared<Stages>().tiles;
                const unsigned t = threadIdx.x;
                const auto copy = [&](int tile) {
                  const auto from = static_cast<int>(tile * 256 + t * 4);
                  const bool inside = from < kValues;
                  copy_async(tiles[tile % 2] + t * 4, inside ? &x[from] : nullptr, inside);
                };
                float sums[4] = {};
                copy(0);
                copy_commit();
                for (int tile = 0; tile < kTiles; ++tile) {
                  if (tile + 1 < kTiles) copy(tile + 1);
                  copy_commit();
                  copy_wait<1>();
                  block_sync();
                  for (int i = 0; i < 4; ++i) sums[i] += tiles[tile % 2][(t * 4 + i + 100) % 256];
                  block_sync();
                }
                copy_wait<0>();
                for (int i = 0; i < 4; ++i) y[(t * 4 + i + 100) % 256] = sums[i];
              });
              for (int i = 0; i < 256; ++i) {
                float expected = 0;
                for (int j = i; j < kValues; j += 256) expected += x[j];
                if (y[i] != expected) return false;
              }
              return true;
            }),
            0);
}

TEST(BlockEmulator, ShufflesCarryAnyTypeAndHalfWarpsMeetAlone) {
  std::vector<std::int64_t> wide(32);
  std::vector<int> narrow(32);
  run({1}, {32}, [&] {
    const int lane = lane_index();
    wide[lane] = shuffle(std::int64_t{lane} << 40, 31 - lane);
    const unsigned half = lane < 16 ? 0x0000ffffU : 0xffff0000U;
    int value = lane;
    // The halves take different ways; each is complete.
    if (lane < 16)
      value = emulator::shuffle(half, value, 15 - lane, emulator::Site::current());
    else
      for (int i = 0; i < 3; ++i)
        value = emulator::shuffle(half, value, 16 + (lane + 1) % 16, emulator::Site::current());
    narrow[lane] = value;
  });
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(wide[lane], std::int64_t{31 - lane} << 40);
    EXPECT_EQ(narrow[lane], lane < 16 ? 15 - lane : 16 + (lane + 3) % 16);
  }
}

TEST(BlockEmulator, SchedulesOrderBlocksAndWarpsDifferently) {
  const auto order_under = [](unsigned schedule) {
    std::vector<unsigned> order;
    emulator::set_schedule(schedule);
    if (!kSeesRaces)  // it would rightly call this a race
      run({5}, {64}, [&] { order.push_back(blockIdx.x * 64 + threadIdx.x); });
    emulator::set_schedule(0);
    return order;
  };
  if (kSeesRaces) GTEST_SKIP() << "writes down the order by a race";
  std::vector<unsigned> expected(5 * 64);
  std::iota(expected.begin(), expected.end(), 0U);
  EXPECT_EQ(order_under(0), expected);
  std::reverse(expected.begin(), expected.end());
  EXPECT_EQ(order_under(1), expected);
  EXPECT_NE(order_under(2), order_under(3));
  EXPECT_EQ(order_under(2), order_under(2));
  for (const unsigned schedule : {2U, 100U}) {
    auto order = order_under(schedule);
    std::sort(order.begin(), order.end());
    std::reverse(order.begin(), order.end());
    EXPECT_EQ(order, expected);
  }
}

TEST(BlockEmulator, TheLargestBlock) {
  if (kSeesRaces)
    GTEST_SKIP() << "every barrier of later tests would cost TSan as much as this one";
  std::vector<unsigned> x(1024);
  run({2}, {1024}, [&] {
    block_sync();
    if (blockIdx.x == 1) x[threadIdx.x] = threadIdx.x;
  });
  EXPECT_EQ(x[1023], 1023U);
}

}  // namespace
}  // namespace hydrascope::kernels::test
