#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/exp/exp_test.cpp"
// clang-format off: the rest of the file is repeated by the first of these.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "kernels/exp/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// count: a multiple of 16.
void exp_of(const float* x, std::size_t count, float* y) {
  for (std::size_t i = 0; i < count; i += lanes()) store(exp_f32(load(x + i)), y + i);
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tests/kernels/kernel_case.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace hydrascope::kernels {

HWY_EXPORT(exp_of);

namespace test {
namespace {

std::vector<float> exp_of_all(std::vector<float> x) {
  x.resize((x.size() + 15) / 16 * 16);
  std::vector<float> y(x.size());
  HWY_DYNAMIC_DISPATCH(exp_of)(x.data(), x.size(), y.data());
  return y;
}

TEST(Exp, ErrsByLessThanTwoRoundingsOverItsWholeRange) {
  std::vector<float> x;
  for (int i = -87336; i <= 88722; ++i) x.push_back(0.001F * static_cast<float>(i));
  for (float tiny = 1e-30F; tiny < 0.1F; tiny *= 3) x.insert(x.end(), {tiny, -tiny});
  for_each_instruction_set([&] {
    const std::vector<float> y = exp_of_all(x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = std::exp(static_cast<double>(x[i]));
      const double error = std::abs(static_cast<double>(y[i]) - expected) / expected;
      ASSERT_LE(error, 2e-7) << "x = " << x[i];
    }
  });
}

TEST(Exp, EndsOfTheRange) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLargest = std::numeric_limits<float>::max();
  const float payload = std::bit_cast<float>(0xff8001ffU);  // a NaN whose low bits are set
  for_each_instruction_set([&] {
    const std::vector<float> y =
        exp_of_all({0.0F, -0.0F, -87.5F, -300.0F, -1e6F, -1e10F, -kLargest, -kInfinity, 88.8F,
                    300.0F, 1e10F, kLargest, kInfinity, std::nanf(""), payload, -std::nanf("")});
    EXPECT_EQ(y[0], 1.0F);
    EXPECT_EQ(y[1], 1.0F);
    for (std::size_t i = 2; i < 8; ++i) EXPECT_EQ(y[i], 0.0F) << i;
    for (std::size_t i = 8; i < 13; ++i) EXPECT_EQ(y[i], kInfinity) << i;
    for (std::size_t i = 13; i < 16; ++i) EXPECT_TRUE(std::isnan(y[i])) << i;
  });
}

}  // namespace
}  // namespace test
}  // namespace hydrascope::kernels
#endif  // HWY_ONCE
