// The emulator's words are CUDA's: indices, operands of tensor cores, shuffles; and schedules differ. Sums,
// last_block, barriers and copies are shown by the tests of kernels, which run here as well.
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

TEST(BlockEmulator, ShufflesExchangeLanes) {
  std::vector<float> found(32);
  run({1}, {32}, [&] {
    const int lane = lane_index();
    found[lane] = shuffle_xor(shuffle_xor(static_cast<float>(lane), 1), 16);
  });
  for (int lane = 0; lane < 32; ++lane) EXPECT_EQ(found[lane], static_cast<float>(lane ^ 17));
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

}  // namespace
}  // namespace hydrascope::kernels::test
