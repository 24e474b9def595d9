#include "tests/kernels/gelu/gelu_array.h"
#include "tests/kernels/gelu/gelu_reference.h"
#include "tests/kernels/kernel_case.h"

#include <gtest/gtest.h>

namespace hydrascope::kernels::test {
namespace gelu_test {

/// Every thousandth of [-12, 12], then powers down to the subnormal numbers and up to 1e30.
std::vector<float> inputs() {
  std::vector<float> x;
  for (int i = -12000; i <= 12000; ++i) x.push_back(static_cast<float>(i) * 1e-3F);
  for (float size = 12; size < 1e30F; size *= 1.37F) x.insert(x.end(), {size, -size});
  // Below a half: the smallest number of all must round to zero for the loop to end.
  for (float size = 1e-3F; size > 0; size *= 0.4F) x.insert(x.end(), {size, -size});
  return x;
}

/// T of a result: float or BFloat16.
template <class T>
std::vector<T> gelu_of(const std::vector<float>& x) {
  std::vector<T> y(x.size());
  gelu::gelu(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  return y;
}

TEST(GeluKernel, ErrorOfErfIsBelowOneMillionth) {
  const std::vector<float> x = inputs();
  for_each_instruction_set([&] {
    const std::vector<float> y = gelu_of<float>(x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      // erf enters times x / 2: an error relative to x, so that small x keep their digits.
      const double tolerance = 0.5e-6 * std::abs(static_cast<double>(x[i])) +
                               static_cast<double>(std::numeric_limits<float>::denorm_min());
      const double expected = gelu::gelu_reference(static_cast<double>(x[i]));
      ASSERT_TRUE(std::abs(static_cast<double>(y[i]) - expected) <= tolerance)
          << "x = " << x[i] << ": found " << y[i] << ", expected " << expected;
    }
  });
}

TEST(GeluKernel, ForBfloat16ErrorOfErfIsBelowOneHundredThousandth) {
  const std::vector<float> x = inputs();
  for_each_instruction_set([&] {
    const std::vector<BFloat16> y = gelu_of<BFloat16>(x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = gelu::gelu_reference(static_cast<double>(x[i]));
      // Rounding: half a unit in the last of 8 binary digits, at most 2^-8 of what is rounded.
      const double exact = 0.5e-5 * std::abs(static_cast<double>(x[i]));
      const double tolerance = exact + (std::abs(expected) + exact) / 256 + 1e-40;
      const auto found = static_cast<double>(static_cast<float>(y[i]));
      ASSERT_TRUE(std::abs(found - expected) <= tolerance)
          << "x = " << x[i] << ": found " << found << ", expected " << expected;
    }
  });
}

template <class T>
class GeluTails : public ::testing::Test {};
TYPED_TEST_SUITE(GeluTails, CpuTypes);

TYPED_TEST(GeluTails, AreFlatAndNanStays) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  // More than a vector, so that both the vectors and the rest meet each value.
  std::vector<float> x;
  for (int i = 0; i < 5; ++i)
    x.insert(x.end(), {6.0F, -6.0F, 1024.0F, -1e30F, kInfinity, kNan, 0.0F});
  for_each_instruction_set([&] {
    const std::vector<TypeParam> y = gelu_of<TypeParam>(x);
    for (std::size_t i = 0; i < x.size(); i += 7) {
      const auto at = [&](std::size_t k) { return static_cast<float>(y[i + k]); };
      EXPECT_EQ(at(0), 6);
      EXPECT_NEAR(at(1), 0, 1e-6);
      EXPECT_EQ(at(2), 1024);
      EXPECT_NEAR(at(3), 0, 1e-6);
      EXPECT_EQ(at(4), kInfinity);
      EXPECT_TRUE(std::isnan(at(5)));
      EXPECT_EQ(at(6), 0);
    }
  });
}

TYPED_TEST(GeluTails, TouchNothingOutsideForAnyCount) {
  for_each_instruction_set([] {
    for (std::size_t count = 0; count < 40; ++count) {
      std::vector<float> x(count);
      fill(x, Fill::normal, 1);
      Guarded<TypeParam> y(count);
      gelu::gelu(x.data(), y.data(), static_cast<std::int64_t>(count));
      EXPECT_TRUE(y.intact());
      std::vector<double> expected;
      for (const float value : x)
        expected.push_back(gelu::gelu_reference(static_cast<double>(value)));
      expect_close(y.data(), expected, rounding<TypeParam>(), 1e-6, 1, "gelu");
    }
  });
}

TEST(GeluKernel, MayWriteInPlace) {
  std::vector<float> x(37);
  fill(x, Fill::normal, 1);
  const std::vector<float> apart = gelu_of<float>(x);
  gelu::gelu(x.data(), x.data(), static_cast<std::int64_t>(x.size()));
  EXPECT_EQ(x, apart);
}

}  // namespace gelu_test
}  // namespace hydrascope::kernels::test
