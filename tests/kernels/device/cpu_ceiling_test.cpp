#include "kernels/device/cpu_ceiling.h"

#include "kernels/device/matrix_instructions.h"
#include "kernels/linear/linear.h"
#include "kernels/stopwatch.h"
#include "kernels/vector/aligned_buffer.h"
#include "tests/under_sanitizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace hydrascope::kernels::device {
namespace cpu_ceiling_test {

/// Operations per second of a product that this thread does by the kernels, at best.
double rate_of_a_product() {
  constexpr std::int64_t kRows = 96;
  constexpr std::int64_t kDepth = 256;
  constexpr std::int64_t kColumns = 256;
  const std::vector<float> values(static_cast<std::size_t>(kColumns * kDepth), 0.5F);
  const linear::PackedWeight weight(Storage::float32, values.data(), kColumns, kDepth, kDepth);
  std::vector<float> y(static_cast<std::size_t>(kRows * kColumns));
  double best = 0;
  for (int round = 0; round < 50; ++round) {
    const Clock::time_point begin = Clock::now();
    linear::linear(linear::LinearParams<float>{values.data(), kDepth, kRows, &weight, nullptr,
                                               y.data(), kColumns, linear::Epilogue::store});
    best = std::max(best, 2.0 * kRows * kDepth * kColumns / seconds_since(begin));
  }
  return best;
}

// The order that the instructions have by their definitions, with room for a machine that does other
// things meanwhile.
TEST(CpuCeilingTest, NoProductIsFasterThanTheCeiling) {
  if (testing::under_sanitizer()) GTEST_SKIP() << "the kernels are slowed down, the ceiling is not";
  if (std::getenv("HYDRASCOPE_EMULATED_PROCESSOR") != nullptr)
    GTEST_SKIP() << "an emulator's times are no processor's";
  ThreadTeam one(1);
  const CpuCeiling ceiling = measure_ceiling(one);
  constexpr double kDisturbed = 1.25;
  const double rate = rate_of_a_product();
  EXPECT_LT(rate, kDisturbed * ceiling.float32.best);
  EXPECT_GT(rate, 0.3 * ceiling.float32.best);
  // Without AMX, Intel's processors with AVX512_BF16 begin a product of pairs in every second cycle, and two of float32
  // in each: half the rate.
  EXPECT_GT(2 * kDisturbed * ceiling.bfloat16.best, ceiling.float32.best);
  if (may_use(MatrixInstruction::avx512_vnni) || may_use(MatrixInstruction::avx_vnni)) {
    EXPECT_GT(kDisturbed * ceiling.int8.best, 3 * ceiling.float32.best);
  }
  EXPECT_GT(kDisturbed * ceiling.l2_read.best, ceiling.memory_read.best);
  EXPECT_GT(ceiling.memory_read.best, 1e8);
  EXPECT_EQ(ceiling.threads, 1);
}

TEST(CpuCeilingTest, RoundsFarApartOrThreadsFarBelowOneAreDisturbed) {
  const std::vector<double> even{98, 100, 97, 99, 96};
  EXPECT_FALSE(is_disturbed(even, 0));
  EXPECT_FALSE(is_disturbed(even, 140));  // a lower clock
  EXPECT_TRUE(is_disturbed(even, 200));   // two threads had one core
  const std::vector<double> rarely{60, 100, 97, 99, 96};
  EXPECT_FALSE(is_disturbed(rarely, 0));  // a round that was disturbed does not lower the best
  const std::vector<double> mostly{60, 100, 70, 99, 65};
  EXPECT_TRUE(is_disturbed(mostly, 0));
  EXPECT_FALSE(is_disturbed(std::vector<double>{5}, 0));
}

}  // namespace cpu_ceiling_test
}  // namespace hydrascope::kernels::device
