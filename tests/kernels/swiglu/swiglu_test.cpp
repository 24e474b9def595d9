#include "kernels/swiglu/swiglu.h"

#include "tests/kernels/kernel_case.h"
#include "tests/kernels/twin.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace hydrascope::kernels::test {
namespace swiglu_test {

using swiglu::SwigluParams;

template <class T>
class SwigluKernel : public ::testing::Test {};
TYPED_TEST_SUITE(SwigluKernel, CpuTypes);

double silu(double g) { return g / (1 + std::exp(-g)); }

TYPED_TEST(SwigluKernel, AgreesWithItsTwinAlsoInPlace) {
  using T = TypeParam;
  for_each_instruction_set([&] {
    for (const std::int64_t width : {1, 3, 8, 16, 37, 192}) {
      for (const Fill how : {Fill::normal, Fill::large, Fill::zeros}) {
        SCOPED_TRACE("width " + std::to_string(width));
        constexpr std::int64_t kRows = 5;
        Guarded<T> x(static_cast<std::size_t>(kRows * 2 * width));
        fill(x, how, 1);
        std::vector<double> expected;
        for (std::int64_t row = 0; row < kRows; ++row) {
          const T* g = x.data() + row * 2 * width;
          for (std::int64_t i = 0; i < width; ++i)
            expected.push_back(silu(twin::widened(g[i])) * twin::widened(g[width + i]));
        }
        Guarded<T> y(expected.size());
        swiglu::swiglu(SwigluParams<T>{x.data(), kRows, width, y.data()});
        expect_close(y.data(), expected, rounding<T>(), 1e-30, static_cast<std::size_t>(width),
                     "beside");
        swiglu::swiglu(SwigluParams<T>{x.data(), kRows, width, x.data()});
        expect_close(x.data(), expected, rounding<T>(), 1e-30, static_cast<std::size_t>(width),
                     "in place");
        EXPECT_TRUE(x.intact());
        EXPECT_TRUE(y.intact());
      }
    }
  });
}

TYPED_TEST(SwigluKernel, GatesThatAreShutGiveZeroAndNanStays) {
  using T = TypeParam;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> gates{-100, 0, kInfinity, std::numeric_limits<float>::quiet_NaN(),
                                 -kInfinity};
  const auto width = static_cast<std::int64_t>(gates.size());
  std::vector<T> x;
  for (const float gate : gates) x.push_back(T(gate));
  x.resize(2 * gates.size(), T(2.0F));
  std::vector<T> y(gates.size());
  swiglu::swiglu(SwigluParams<T>{x.data(), 1, width, y.data()});
  EXPECT_EQ(twin::widened(y[0]), 0);
  EXPECT_EQ(twin::widened(y[1]), 0);
  EXPECT_EQ(twin::widened(y[2]), kInfinity);
  EXPECT_TRUE(std::isnan(twin::widened(y[3])));
  EXPECT_TRUE(std::isnan(twin::widened(y[4])));
}

}  // namespace swiglu_test
}  // namespace hydrascope::kernels::test
