#include "kernels/local_convolution/local_convolution_cuda.h"

#include "kernels/error.h"
#include "kernels/local_convolution/local_convolution_geometry.h"
#include "tests/kernels/device_array.h"
#include "tests/kernels/fills.h"
#include "tests/kernels/local_convolution/local_convolution_reference.h"
#include "tests/kernels/token_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace hydrascope::kernels::test {
namespace local_convolution_cuda_test {

using local_convolution::Shape;
using local_convolution::cuda::AddParams;

template <class T>
class LocalConvolutionCuda : public DeviceTest {};
using Stored = testing::Types<float, BFloat16, Float16>;
TYPED_TEST_SUITE(LocalConvolutionCuda, Stored);

/// Two images; rows lie as `layout` says.
template <class T>
void expect_sums(const Shape& shape, Layout layout) {
  constexpr std::int64_t kImages = 2;
  SCOPED_TRACE(std::to_string(shape.rows) + "x" + std::to_string(shape.columns) + " patches of " +
               std::to_string(shape.dim) + ", size " + std::to_string(shape.size) +
               (layout == Layout::packed ? ", packed" : ", odd"));
  const std::int64_t patches = shape.rows * shape.columns;
  const auto elements = static_cast<std::size_t>(kImages * patches * shape.dim);
  const std::int64_t pad = layout == Layout::packed ? 16 : 5;
  const std::int64_t stride = shape.dim + pad;
  const std::int64_t image_stride = patches * stride + (layout == Layout::packed ? 8 : 3);
  std::vector<T> values(elements);
  std::vector<T> start(elements);
  std::vector<float> weight(static_cast<std::size_t>(shape.size * shape.size * shape.dim));
  fill(values, Fill::normal, 1);
  fill(start, Fill::normal, 2);
  fill(weight, Fill::normal, 3);
  const auto spread = [&](const std::vector<T>& rows) {
    std::vector<T> all(static_cast<std::size_t>(kImages * image_stride),
                       T(std::numeric_limits<float>::quiet_NaN()));
    for (std::int64_t row = 0; row < kImages * patches; ++row)
      for (std::int64_t f = 0; f < shape.dim; ++f)
        all[static_cast<std::size_t>(row / patches * image_stride + row % patches * stride + f)] =
            rows[static_cast<std::size_t>(row * shape.dim + f)];
    return all;
  };
  std::vector<double> expected;
  for (std::int64_t image = 0; image < kImages; ++image) {
    const std::int64_t first = image * patches * shape.dim;
    const std::vector<double> one = local_convolution::add_reference(
        local_convolution::AddParams<T>{shape, values.data() + first, shape.dim, weight.data(), 0,
                                        patches, start.data() + first, shape.dim});
    expected.insert(expected.end(), one.begin(), one.end());
  }
  const DeviceArray<T> v(spread(values));
  const DeviceArray<float> w(weight);
  for_each_schedule([&] {
    DeviceArray<T> y(spread(start));
    local_convolution::cuda::add(AddParams<T>{shape, kImages, v.data(), stride, image_stride,
                                              w.data(), y.data(), stride, image_stride},
                                 nullptr);
    EXPECT_TRUE(y.intact());
    const std::vector<T> all = y.download();
    std::vector<T> found;
    for (std::int64_t i = 0; i < kImages * image_stride; ++i) {
      const std::int64_t within = i % image_stride;
      if (within / stride < patches && within % stride < shape.dim)
        found.push_back(all[static_cast<std::size_t>(i)]);
      else
        ASSERT_TRUE(std::isnan(static_cast<float>(all[static_cast<std::size_t>(i)])))
            << "written beside the rows, at " << i;
    }
    ASSERT_EQ(found.size(), expected.size());
    const double rounding = sizeof(T) == 4 ? 3e-6 : std::is_same_v<T, Float16> ? 1e-3 : 4e-3;
    expect_close(found.data(), expected, rounding, 1e-6, static_cast<std::size_t>(shape.dim), "y");
  });
}

TYPED_TEST(LocalConvolutionCuda, EqualsTheEquation) {
  for (const std::int64_t size : {3, 5, 7}) {
    for (const Layout layout : {Layout::packed, Layout::odd}) {
      expect_sums<TypeParam>({5, 11, 24, size}, layout);
      expect_sums<TypeParam>({1, 2, 40, size}, layout);
      expect_sums<TypeParam>({9, 1, 8, size}, layout);
    }
    expect_sums<TypeParam>({3, 4, 7, size}, Layout::packed);
  }
}

TYPED_TEST(LocalConvolutionCuda, OtherSizesAreRefusedAndNothingIsNothing) {
  AddParams<TypeParam> p{};
  p.shape = {2, 2, 8, 9};
  p.images = 0;
  local_convolution::cuda::add(p, nullptr);
  p.images = 1;
  EXPECT_THROW(local_convolution::cuda::add(p, nullptr), Error);
}

TEST(LocalConvolutionGeometry, EveryNeighbourHasAThread) {
  using local_convolution::cuda::geometry;
  EXPECT_EQ(geometry(1, 1, 1, 1).grid.x, 1);
  EXPECT_EQ(geometry(1, 68, 120, 96).grid.x, 68 * 30 * 96 / 128);
  EXPECT_EQ(geometry(2, 14, 14, 24).grid.x, 2 * 14 * 4 * 24 / 128);
}

}  // namespace local_convolution_cuda_test
}  // namespace hydrascope::kernels::test
