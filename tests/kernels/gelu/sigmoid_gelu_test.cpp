#include "kernels/gelu/sigmoid_gelu.h"

#include "tests/kernels/kernel_case.h"
#include "tests/kernels/twin.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace hydrascope::kernels::test {
namespace sigmoid_gelu_test {

template <class T>
class SigmoidGeluKernel : public testing::Test {};
TYPED_TEST_SUITE(SigmoidGeluKernel, CpuTypes);

/// As torch has them.
double quick_gelu(double x) { return x / (1 + std::exp(-1.702 * x)); }
double tanh_gelu(double x) {
  const double root = std::sqrt(2 / std::numbers::pi);
  return 0.5 * x * (1 + std::tanh(root * (x + 0.044715 * x * x * x)));
}

TYPED_TEST(SigmoidGeluKernel, AgreesWithItsTwinAlsoInPlace) {
  using T = TypeParam;
  for_each_instruction_set([&] {
    for (const bool quick : {true, false}) {
      const gelu::SigmoidForm form = quick ? gelu::kQuick : gelu::kTanh;
      for (const std::int64_t count : {0, 1, 3, 8, 16, 37, 192}) {
        for (const Fill how : {Fill::normal, Fill::large, Fill::zeros}) {
          SCOPED_TRACE("count " + std::to_string(count));
          Guarded<T> x(static_cast<std::size_t>(count));
          fill(x, how, 1);
          std::vector<double> expected;
          for (std::int64_t i = 0; i < count; ++i) {
            const double value = twin::widened(x.data()[i]);
            expected.push_back(quick ? quick_gelu(value) : tanh_gelu(value));
          }
          Guarded<T> y(expected.size());
          gelu::sigmoid_gelu(gelu::SigmoidGeluParams<T>{x.data(), count, form, y.data()});
          expect_close(y.data(), expected, 2 * rounding<T>(), 1e-30, expected.size(), "beside");
          gelu::sigmoid_gelu(gelu::SigmoidGeluParams<T>{x.data(), count, form, x.data()});
          expect_close(x.data(), expected, 2 * rounding<T>(), 1e-30, expected.size(), "in place");
          EXPECT_TRUE(x.intact());
          EXPECT_TRUE(y.intact());
        }
      }
    }
  });
}

TYPED_TEST(SigmoidGeluKernel, EndsAreTorchs) {
  using T = TypeParam;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const gelu::SigmoidForm form : {gelu::kQuick, gelu::kTanh}) {
    std::vector<T> x;
    for (const float value :
         {-100.0F, 0.0F, 100.0F, std::numeric_limits<float>::quiet_NaN(), kInfinity})
      x.push_back(T(value));
    gelu::sigmoid_gelu(
        gelu::SigmoidGeluParams<T>{x.data(), static_cast<std::int64_t>(x.size()), form, x.data()});
    EXPECT_EQ(twin::widened(x[0]), 0);
    EXPECT_EQ(twin::widened(x[1]), 0);
    EXPECT_EQ(twin::widened(x[2]), 100);
    EXPECT_TRUE(std::isnan(twin::widened(x[3])));
    EXPECT_EQ(twin::widened(x[4]), kInfinity);
  }
}

}  // namespace sigmoid_gelu_test
}  // namespace hydrascope::kernels::test
