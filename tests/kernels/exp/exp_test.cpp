#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/exp/exp_test.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/exp/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

void exp_each(const float* x, float* y, std::size_t count) {
  std::size_t i = 0;
  for (; i + lanes() <= count; i += lanes()) store(exp_f32(load(x + i)), y + i);
  if (i < count) store_n(exp_f32(load_n(x + i, count - i)), y + i, count - i);
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tests/kernels/kernel_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace hydrascope::kernels {
HWY_EXPORT(exp_each);

namespace test {
namespace {

std::vector<float> exp_of(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  HWY_DYNAMIC_DISPATCH(exp_each)(x.data(), y.data(), x.size());
  return y;
}

TEST(Exp, IsWithin2e7OfTheTruthWhereResultsAreNormal) {
  std::vector<float> x;
  for (int i = -87000; i <= 88700; i += 7) x.push_back(0.001F * static_cast<float>(i));
  for (int i = -2000; i <= 2000; ++i) x.push_back(1e-6F * static_cast<float>(i));
  for_each_instruction_set([&](const std::string& name) {
    SCOPED_TRACE(name);
    const std::vector<float> y = exp_of(x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = std::exp(static_cast<double>(x[i]));
      ASSERT_LE(std::abs(static_cast<double>(y[i]) - expected), 2e-7 * expected) << x[i];
    }
  });
}

TEST(Exp, IsWithinTwoStepsWhereResultsAreSubnormal) {
  std::vector<float> x;
  for (int i = 8700; i <= 10500; ++i) x.push_back(-0.01F * static_cast<float>(i));
  for_each_instruction_set([&](const std::string& name) {
    SCOPED_TRACE(name);
    const std::vector<float> y = exp_of(x);
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(static_cast<double>(y[i]), std::exp(static_cast<double>(x[i])),
                  3e-45 + 2e-7 * std::exp(static_cast<double>(x[i])))
          << x[i];
  });
}

TEST(Exp, KnowsItsLimits) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> x{0.0F,   -0.0F,  -kInf, kInf,  -200.0F,
                             -1e30F, 88.72F, 88.8F, 1e30F, std::numeric_limits<float>::quiet_NaN()};
  for_each_instruction_set([&](const std::string& name) {
    SCOPED_TRACE(name);
    const std::vector<float> y = exp_of(x);
    EXPECT_EQ(y[0], 1);
    EXPECT_EQ(y[1], 1);
    EXPECT_EQ(y[2], 0);
    EXPECT_EQ(y[3], kInf);
    EXPECT_EQ(y[4], 0);
    EXPECT_EQ(y[5], 0);
    EXPECT_TRUE(std::isfinite(y[6]));
    EXPECT_EQ(y[7], kInf);
    EXPECT_EQ(y[8], kInf);
    EXPECT_TRUE(std::isnan(y[9]));
  });
}

}  // namespace
}  // namespace test
}  // namespace hydrascope::kernels
#endif  // HWY_ONCE
