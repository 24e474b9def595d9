#include "kernels/gelu/gelu_cuda.h"

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

/// gelu of `x`, which lies `offset` values behind an aligned address.
std::vector<float> gelu_of(const std::vector<float>& x, std::size_t offset = 0) {
  std::vector<float> all(offset, kNan);
  all.insert(all.end(), x.begin(), x.end());
  DeviceArray<float> values(all);
  gelu::cuda::gelu(values.data() + offset, static_cast<std::int64_t>(x.size()), nullptr);
  const std::vector<float> found = values.download();
  EXPECT_TRUE(values.intact());
  for (std::size_t i = 0; i < offset; ++i) EXPECT_TRUE(std::isnan(found[i]));
  return {found.begin() + static_cast<std::ptrdiff_t>(offset), found.end()};
}

void expect_gelu(const std::vector<float>& x, const std::vector<float>& found) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = gelu::gelu_reference(static_cast<double>(x[i]));
    ASSERT_LE(std::abs(static_cast<double>(found[i]) - expected),
              2e-7 + rounding<float>() * std::abs(expected))
        << "gelu(" << x[i] << "), at " << i;
  }
}

TEST_F(GeluCuda, EqualsTheEquation) {
  std::vector<float> x;
  for (int i = -6000; i <= 6000; ++i) x.push_back(0.002F * static_cast<float>(i));
  for (const float value : {-0.0F, 1e-7F, -1e-4F, 100.0F, -100.0F, 6e4F, -6e4F}) x.push_back(value);
  expect_gelu(x, gelu_of(x));
}

TEST_F(GeluCuda, EveryCountAndAlignment) {
  for (const std::size_t count : {1, 2, 3, 7, 8, 9, 31, 33, 197, 1024, 8191, 8193})
    for (const std::size_t offset : {0, 1, 5}) {
      std::vector<float> x(count);
      fill(x, Fill::normal, 1);
      for_each_schedule([&] { expect_gelu(x, gelu_of(x, offset)); });
    }
  gelu::cuda::gelu(nullptr, 0, nullptr);
}

TEST_F(GeluCuda, NanAndInfinity) {
  const std::vector<float> found = gelu_of({1.0F, kNan, kInfinity, -kInfinity});
  EXPECT_NEAR(found[0], 0.8413447F, 1e-6F);
  EXPECT_TRUE(std::isnan(found[1]));
  EXPECT_EQ(found[2], kInfinity);
  EXPECT_TRUE(std::isnan(found[3]));
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
