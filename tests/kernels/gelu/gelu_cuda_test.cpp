#include "kernels/gelu/gelu_cuda.h"

#include "kernels/error.h"
#include "tests/kernels/device_array.h"
#include "tests/kernels/fills.h"
#include "tests/kernels/gelu/gelu_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace hydrascope::kernels::test {
namespace gelu_cuda_test {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class GeluCuda : public DeviceTest {};

std::vector<float> gelu_of(const std::vector<float>& x) {
  DeviceArray<float> values(x);
  gelu::cuda::gelu(values.data(), static_cast<std::int64_t>(x.size()), nullptr);
  EXPECT_TRUE(values.intact());
  return values.download();
}

void expect_gelu(const std::vector<float>& x, const std::vector<float>& found) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = gelu::gelu_reference(static_cast<double>(x[i]));
    ASSERT_LE(std::abs(static_cast<double>(found[i]) - expected),
              4.5e-7 + rounding<float>() * std::abs(expected))
        << "gelu(" << x[i] << "), at " << i;
  }
}

TEST_F(GeluCuda, EqualsTheEquation) {
  std::vector<float> x;
  for (int i = -6000; i <= 6000; ++i) x.push_back(0.002F * static_cast<float>(i));
  for (const float value : {-0.0F, 1e-7F, -1e-4F, 10.0F, 100.0F, -100.0F, 6e4F}) x.push_back(value);
  expect_gelu(x, gelu_of(x));
}

TEST_F(GeluCuda, EveryCount) {
  for (const std::size_t count : {4, 8, 32, 196, 1024, 2044, 2048, 2052, 8192}) {
    std::vector<float> x(count);
    fill(x, Fill::normal, 1);
    for_each_schedule([&] { expect_gelu(x, gelu_of(x)); });
  }
  gelu::cuda::gelu(nullptr, 0, nullptr);
}

TEST_F(GeluCuda, ValuesThatAreNotWholePacksAreRefused) {
  DeviceArray<float> values(8);
  EXPECT_THROW(gelu::cuda::gelu(values.data() + 1, 4, nullptr), Error);
  EXPECT_THROW(gelu::cuda::gelu(values.data(), 7, nullptr), Error);
}

TEST_F(GeluCuda, NanAndInfinity) {
  const std::vector<float> found = gelu_of({1.0F, kNan, kInfinity, -kInfinity});
  EXPECT_NEAR(found[0], 0.8413447F, 1e-6F);
  EXPECT_TRUE(std::isnan(found[1]));
  EXPECT_EQ(found[2], kInfinity);
  EXPECT_TRUE(std::isnan(found[3]));
}

}  // namespace gelu_cuda_test
}  // namespace hydrascope::kernels::test
