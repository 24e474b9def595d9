#include "kernels/gelu/gelu_cuda.h"

#include "kernels/gelu/gelu_geometry.h"
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

template <class T>
class GeluCuda : public DeviceTest {};
using Stored = testing::Types<float, BFloat16, Float16>;
TYPED_TEST_SUITE(GeluCuda, Stored);

/// gelu of `x`, which lies `offset` values behind an aligned address.
template <class T>
std::vector<T> gelu_of(const std::vector<T>& x, std::size_t offset = 0) {
  std::vector<T> all(offset, T(kNan));
  all.insert(all.end(), x.begin(), x.end());
  DeviceArray<T> values(all);
  gelu::cuda::gelu(values.data() + offset, static_cast<std::int64_t>(x.size()), nullptr);
  const std::vector<T> found = values.download();
  EXPECT_TRUE(values.intact());
  for (std::size_t i = 0; i < offset; ++i) EXPECT_TRUE(std::isnan(static_cast<float>(found[i])));
  return {found.begin() + static_cast<std::ptrdiff_t>(offset), found.end()};
}

template <class T>
void expect_gelu(const std::vector<T>& x, const std::vector<T>& found) {
  // What the approximation promises beside the rounding; float16's subnormals are 6e-8 apart.
  const double absolute = std::is_same_v<T, BFloat16> ? 7e-6 : 2e-7;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto value = static_cast<double>(static_cast<float>(x[i]));
    const double expected = gelu::gelu_reference(value);
    ASSERT_LE(std::abs(static_cast<double>(static_cast<float>(found[i])) - expected),
              absolute + rounding<T>() * std::abs(expected))
        << "gelu(" << value << "), at " << i;
  }
}

TYPED_TEST(GeluCuda, EqualsTheEquation) {
  std::vector<TypeParam> x;
  for (int i = -6000; i <= 6000; ++i) x.push_back(TypeParam(0.002F * static_cast<float>(i)));
  for (const float value : {-0.0F, 1e-7F, -1e-4F, 100.0F, -100.0F, 6e4F, -6e4F})
    x.push_back(TypeParam(value));
  expect_gelu(x, gelu_of(x));
}

TYPED_TEST(GeluCuda, EveryCountAndAlignment) {
  for (const std::size_t count : {1, 2, 3, 7, 8, 9, 31, 33, 197, 1024, 8191, 8193})
    for (const std::size_t offset : {0, 1, 5}) {
      std::vector<TypeParam> x(count);
      fill(x, Fill::normal, 1);
      for_each_schedule([&] { expect_gelu(x, gelu_of(x, offset)); });
    }
  gelu::cuda::gelu(static_cast<TypeParam*>(nullptr), 0, nullptr);
}

TYPED_TEST(GeluCuda, NanAndInfinity) {
  const std::vector<TypeParam> found = gelu_of<TypeParam>(
      {TypeParam(1.0F), TypeParam(kNan), TypeParam(kInfinity), TypeParam(-kInfinity)});
  const auto value = [&](std::size_t i) { return static_cast<float>(found[i]); };
  EXPECT_NEAR(value(0), 0.8413F, 4e-3F);
  EXPECT_TRUE(std::isnan(value(1)));
  EXPECT_EQ(value(2), kInfinity);
  if (std::is_same_v<TypeParam, BFloat16>)
    EXPECT_NEAR(value(3), -3.5e-7F, 1e-7F);
  else
    EXPECT_TRUE(std::isnan(value(3)));
}

TEST(GeluGeometry, AnArrayIsCutAtAlignedPacks) {
  using gelu::cuda::parts;
  for (std::int64_t address = 0; address < 32; address += 2)
    for (std::int64_t count = 0; count < 40; ++count) {
      const auto cut = parts(static_cast<std::uint64_t>(address), count, 2);
      ASSERT_EQ(cut.head + 8 * cut.packs + cut.tail, count);
      ASSERT_LT(cut.head, 8);
      ASSERT_LT(cut.tail, 8);
      ASSERT_TRUE(cut.packs == 0 || (address + 2 * cut.head) % 16 == 0);
    }
  EXPECT_EQ(gelu::cuda::geometry(0).grid.x, 1);
  EXPECT_EQ(gelu::cuda::geometry(513).grid.x, 2);
}

}  // namespace gelu_cuda_test
}  // namespace hydrascope::kernels::test
