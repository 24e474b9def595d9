#include "kernels/local_convolution/local_convolution_cuda.h"

#include "kernels/error.h"
#include "tests/kernels/local_convolution/local_convolution_reference.h"
#include "tests/kernels/token_rows.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace hydrascope::kernels::test {
namespace local_convolution_cuda_test {

using local_convolution::Shape;
using local_convolution::cuda::AddParams;

template <class T>
class LocalConvolutionCuda : public DeviceTest {};
TYPED_TEST_SUITE(LocalConvolutionCuda, GpuTypes);

/// Two images.
template <class T>
void expect_sums(const Shape& shape) {
  constexpr std::int64_t kImages = 2;
  SCOPED_TRACE(std::to_string(shape.rows) + "x" + std::to_string(shape.columns) + " patches of " +
               std::to_string(shape.dim) + ", size " + std::to_string(shape.size));
  const std::int64_t patches = shape.rows * shape.columns;
  const TokenRows<T> v(kImages, patches, shape.dim, Layout::packed, Fill::normal, 1);
  std::vector<float> weight(static_cast<std::size_t>(shape.size * shape.size * shape.dim));
  fill(weight, Fill::normal, 3);
  const DeviceArray<float> w(weight);
  for_each_schedule([&] {
    TokenRows<T> y(kImages, patches, shape.dim, Layout::packed, Fill::normal, 2);
    std::vector<double> expected;
    for (std::int64_t image = 0; image < kImages; ++image)
      for (const double value : local_convolution::add_reference(local_convolution::AddParams<T>{
               shape, v.host_of(image), v.stride(), weight.data(), 0, patches,
               const_cast<T*>(y.host_of(image)), y.stride()}))
        expected.push_back(value);
    local_convolution::cuda::add(
        AddParams<T>{shape, kImages, v.data(), v.stride(), v.image_stride(), w.data(), y.data(),
                     y.stride(), y.image_stride()},
        nullptr);
    ASSERT_NO_FATAL_FAILURE(y.download());
    const double rounding = sizeof(T) == 4 ? 3e-6 : std::is_same_v<T, Float16> ? 1e-3 : 4e-3;
    expect_close(y.values().data(), expected, rounding, 1e-6, static_cast<std::size_t>(shape.dim),
                 "y");
  });
}

TYPED_TEST(LocalConvolutionCuda, EqualsTheEquation) {
  for (const std::int64_t size : {3, 5, 7}) {
    expect_sums<TypeParam>({5, 11, 24, size});
    expect_sums<TypeParam>({1, 2, 40, size});
    expect_sums<TypeParam>({9, 1, 8, size});
  }
}

TYPED_TEST(LocalConvolutionCuda, WhatNoKernelServesIsRefusedAndNothingIsNothing) {
  AddParams<TypeParam> p{};
  p.shape = {2, 2, 8, 9};
  p.images = 0;
  local_convolution::cuda::add(p, nullptr);
  p.images = 1;
  EXPECT_THROW(local_convolution::cuda::add(p, nullptr), Error);
  p.shape = {2, 2, 7, 3};
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
