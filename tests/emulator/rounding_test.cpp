// Arithmetic as a GPU's is what rounding.h says, and other than the host's.
#include "tests/emulator/rounding.h"

#include "tests/emulator/small_kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>

namespace hydrascope::kernels::test {
namespace rounding_test {

class GpuRounding : public ::testing::Test {
 protected:
  GpuRounding() { emulator::round_as_gpu(true); }
  ~GpuRounding() override { emulator::round_as_gpu(before_); }

 private:
  bool before_ = emulator::rounds_as_gpu();
};

TEST_F(GpuRounding, FunctionsAreUpToTwoUnitsOff) {
  struct Function {
    float (*of)(float);
    float first;
    float last;
  };
  for (const Function& f :
       {Function{expf, -80, 80}, Function{exp2f, -119.9F, 119.8F}, Function{log2f, 2.1F, 30}}) {
    std::set<std::int32_t> errors;
    for (int i = 0; i < 1000; ++i) {
      const float x = f.first + static_cast<float>(i) * (f.last - f.first) / 999;
      emulator::round_as_gpu(true);
      const float found = f.of(x);
      EXPECT_EQ(found, f.of(x));
      emulator::round_as_gpu(false);
      errors.insert(std::bit_cast<std::int32_t>(found) - std::bit_cast<std::int32_t>(f.of(x)));
    }
    EXPECT_EQ(*errors.begin(), -2);
    EXPECT_EQ(*errors.rbegin(), 2);
  }
  // A logarithm near 0 is as far off as one near 1.
  emulator::round_as_gpu(true);
  double largest = 0;
  for (float x = 0.99F; x < 1.01F; x += 1e-4F)
    largest = std::fmax(largest, std::fabs(log2f(x) - std::log2(static_cast<double>(x))));
  EXPECT_NEAR(largest, 1.5 * 0x1p-23, 0x1p-29);
}

TEST_F(GpuRounding, WhatIsExactOnAGpuStaysExact) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(expf(0), 1);
  EXPECT_EQ(exp2f(-0.0F), 1);
  EXPECT_EQ(expf(-kInfinity), 0);
  EXPECT_EQ(expf(100), kInfinity);
  EXPECT_EQ(log2f(0), -kInfinity);
  EXPECT_EQ(log2f(1), 0);
  EXPECT_TRUE(std::isnan(log2f(-1)));
  EXPECT_EQ(exp2f(-127), 0);  // ex2.approx.ftz has no subnormal numbers
}

/// d of 1 and 16 products `a b`, in every element.
float product(float d, float a, float b, float first_a) {
  float found = 0;
  run({1}, {32}, [&] {
    const auto both = [](float low, float high) {
      return BFloat16(low).bits | static_cast<std::uint32_t>(BFloat16(high).bits) << 16;
    };
    const std::uint32_t rest = both(a, a);
    const bool first = device::lane_index() % 4 == 0;
    const std::uint32_t a_words[4] = {first ? both(first_a, a) : rest,
                                      first ? both(first_a, a) : rest, rest, rest};
    const std::uint32_t b_words[2] = {both(b, b), both(b, b)};
    float sums[4] = {d, d, d, d};
    device::multiply_add<BFloat16>(sums, a_words, b_words);
    if (device::lane_index() == 7) found = sums[3];
  });
  return found;
}

TEST_F(GpuRounding, ProductsLoseWhatIsBelowTheLargestAddend) {
  // Each is 3/4 of a unit of 1: rounded one by one 16 units, cut off none.
  EXPECT_EQ(product(1, 0.75F, 0x1p-23F, 0.75F), 1);
  EXPECT_EQ(product(-1, 0.75F, 0x1p-23F, 0.75F), -1);
  // So does the sum before, here of odd numbers; and sums are cut as well.
  EXPECT_EQ(product(0x1p24F - 1, 0, 1, 0x1p24F), 0x1p25F - 2);
  EXPECT_EQ(product(0x1p24F - 1, 0, 1, 0x1p23F), 0x1p24F + 0x1p23F - 2);
  EXPECT_EQ(product(0.5F, 2, 3, 2), 96.5F);
  EXPECT_EQ(product(0, 3e38F, 2, 1), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(product(0, 1, 1, std::numeric_limits<float>::quiet_NaN())));
  emulator::round_as_gpu(false);
  EXPECT_EQ(product(1, 0.75F, 0x1p-23F, 0.75F), 1 + 0x1p-19F);
}

}  // namespace rounding_test
}  // namespace hydrascope::kernels::test
