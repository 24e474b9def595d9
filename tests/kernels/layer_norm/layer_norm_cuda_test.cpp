#include "kernels/layer_norm/layer_norm_cuda.h"

#include "kernels/error.h"
#include "tests/kernels/layer_norm/layer_norm_reference.h"
#include "tests/kernels/token_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace hydrascope::kernels::test {
namespace layer_norm_cuda_test {

using layer_norm::cuda::LayerNormParams;

constexpr float kEps = 1e-6F;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
class LayerNormCuda : public DeviceTest {};
TYPED_TEST_SUITE(LayerNormCuda, GpuTypes);

struct Case {
  std::int64_t rows;
  std::int64_t dim;
  Fill how = Fill::normal;
  float mean = 0;  ///< added to every x
};

std::string name(const Case& c) { return std::to_string(c.rows) + "x" + std::to_string(c.dim); }

/// The place of the results.
enum class Place { apart, in_place };

template <class T>
void compare(const Case& c, Place place) {
  SCOPED_TRACE(name(c));
  const auto count = static_cast<std::size_t>(c.rows * c.dim);
  std::vector<float> numbers(count);
  fill(numbers, c.how, 3);
  std::vector<T> x;
  for (const float number : numbers) x.push_back(T(number + c.mean));
  const std::vector<double> expected =
      layer_norm::layer_norm_reference(layer_norm::LayerNormParams<T>{
          x.data(), c.dim, c.rows, c.dim, nullptr, nullptr, kEps, nullptr, 0});

  for_each_schedule([&] {
    TokenRows<T> rows(1, c.rows, c.dim, Layout::packed, x);
    TokenRows<T> others(1, c.rows, c.dim, Layout::packed);
    TokenRows<T>& y = place == Place::in_place ? rows : others;
    layer_norm::cuda::layer_norm(
        LayerNormParams<T>{rows.data(), rows.stride(), c.rows, c.dim, kEps, y.data(), y.stride()},
        nullptr);
    ASSERT_NO_FATAL_FAILURE(y.download());
    // One rounding of the result, and of x - mean: a few times 2^-24 of values of order one.
    expect_close(y.values().data(), expected, rounding<T>(), 2e-6, static_cast<std::size_t>(c.dim),
                 "y");
  });
}

TYPED_TEST(LayerNormCuda, EqualsTheEquationOnEveryShape) {
  for (const std::int64_t rows : {1, 2, 31, 33})
    for (const std::int64_t dim : {8, 64, 72}) compare<TypeParam>({rows, dim}, Place::apart);
  for (const std::int64_t rows : {32, 196, 197, 198, 577})
    compare<TypeParam>({rows, 40}, Place::in_place);
}

// Each number of packs a lane may hold, whole and with lanes that have none.
TYPED_TEST(LayerNormCuda, EqualsTheEquationOnEveryWidth) {
  for (const std::int64_t dim :
       {16, 192, 256, 264, 384, 512, 520, 768, 776, 1000, 1024, 1032, 1280, 1536, 2048}) {
    if (!layer_norm::cuda::serves<TypeParam>(dim)) continue;
    const Case c{5, dim};
    compare<TypeParam>(c, dim % 5 == 0 ? Place::in_place : Place::apart);
  }
}

TYPED_TEST(LayerNormCuda, EqualsTheEquationOnEveryKindOfInput) {
  for (const Fill how : kAllFills) compare<TypeParam>({5, 192, how}, Place::apart);
}

// float32 keeps x = mean + noise to 2^-24 mean, and the kept x is normalised exactly. A variance as
// E[x^2] - E[x]^2 would be wrong from the first digit here.
TYPED_TEST(LayerNormCuda, LargeMeanCostsNoDigits) {
  for (const float mean : {-300.0F, 1e4F})
    for (const std::int64_t dim : {192, 776})
      compare<TypeParam>({3, dim, Fill::large, mean}, Place::apart);
}

TYPED_TEST(LayerNormCuda, AConstantRowGivesZero) {
  for (const float value : {0.1F, -3.3F, 1234.567F, 54321.9F, 1e6F + 0.3F, 123456789.0F}) {
    if (std::isinf(static_cast<float>(TypeParam(value)))) continue;  // beyond float16
    for (const std::int64_t dim : {8, 192, 768}) {
      const auto size = static_cast<std::size_t>(dim);
      const std::vector<TypeParam> x(size, TypeParam(value));
      const DeviceArray<TypeParam> device_x(x);
      DeviceArray<TypeParam> y(size);
      layer_norm::cuda::layer_norm(
          LayerNormParams<TypeParam>{device_x.data(), dim, 1, dim, kEps, y.data(), dim}, nullptr);
      // The rest of x - mean is below 2^-24 of the mean's own error, times 1 / sqrt(eps).
      for (const TypeParam found : y.download())
        ASSERT_NEAR(static_cast<float>(found), 0.0F, 2e-3F) << value << " x " << dim;
    }
  }
}

/// Row `row` of y with `x` (rows x dim, contiguous), and with only that row given.
template <class T>
std::vector<T> normalised(const std::vector<T>& x, std::int64_t dim, std::int64_t first,
                          std::int64_t rows) {
  const DeviceArray<T> device_x(x);
  DeviceArray<T> y(static_cast<std::size_t>(rows * dim));
  layer_norm::cuda::layer_norm(
      LayerNormParams<T>{device_x.data() + first * dim, dim, rows, dim, kEps, y.data(), dim},
      nullptr);
  return y.download();
}

TYPED_TEST(LayerNormCuda, NanAndInfinityStayInTheirRow) {
  for (const std::int64_t dim : {72, 192}) {
    for (const float bad : {kNan, std::numeric_limits<float>::infinity()}) {
      for (const std::int64_t at : {std::int64_t{0}, std::int64_t{37}, dim - 1}) {
        std::vector<TypeParam> x(static_cast<std::size_t>(3 * dim));
        fill(x, Fill::normal, 1);
        x[static_cast<std::size_t>(dim + at)] = TypeParam(bad);
        const std::vector<TypeParam> y = normalised(x, dim, 0, 3);
        for (std::int64_t i = 0; i < 3 * dim; ++i)
          ASSERT_EQ(std::isnan(static_cast<float>(y[static_cast<std::size_t>(i)])), i / dim == 1);
      }
    }
  }
}

TYPED_TEST(LayerNormCuda, ARowDependsOnNoOtherAndOnNoSchedule) {
  for (const std::int64_t dim : {72, 192, 384}) {
    std::vector<TypeParam> x(static_cast<std::size_t>(6 * dim));
    fill(x, Fill::normal, 1);
    const std::vector<TypeParam> first = normalised(x, dim, 0, 6);
    for_each_schedule([&] {
      const std::vector<TypeParam> together = normalised(x, dim, 0, 6);
      std::vector<TypeParam> alone;
      for (std::int64_t row = 0; row < 6; ++row)
        for (const TypeParam value : normalised(x, dim, row, 1)) alone.push_back(value);
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(static_cast<float>(first[i]), static_cast<float>(together[i]));
        ASSERT_EQ(static_cast<float>(first[i]), static_cast<float>(alone[i]));
      }
    });
  }
}

TYPED_TEST(LayerNormCuda, NothingIsLaunchedForNoRows) {
  layer_norm::cuda::layer_norm(LayerNormParams<TypeParam>{nullptr, 8, 0, 8, kEps, nullptr, 8},
                               nullptr);
}

TYPED_TEST(LayerNormCuda, RowsThatAreNotWholePacksAreRefused) {
  const DeviceArray<TypeParam> x(64);
  DeviceArray<TypeParam> y(64);
  const auto run = [&](const TypeParam* from, std::int64_t stride, std::int64_t dim) {
    layer_norm::cuda::layer_norm(
        LayerNormParams<TypeParam>{from, stride, 2, dim, kEps, y.data(), 16}, nullptr);
  };
  run(x.data(), 16, 8);
  EXPECT_THROW(run(x.data(), 16, 0), Error);
  EXPECT_THROW(run(x.data(), 16, 6), Error);
  EXPECT_THROW(run(x.data(), 17, 8), Error);
  EXPECT_THROW(run(x.data() + 1, 16, 8), Error);
}

}  // namespace layer_norm_cuda_test
}  // namespace hydrascope::kernels::test
