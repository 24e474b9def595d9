#include "kernels/local_convolution/local_convolution.h"

#include "tests/kernels/local_convolution/local_convolution_reference.h"
#include "tests/kernels/strided_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace hydrascope::kernels::test {
namespace local_convolution_test {

using local_convolution::AddParams;
using local_convolution::Shape;

template <class T>
class LocalConvolution : public testing::Test {};
TYPED_TEST_SUITE(LocalConvolution, CpuTypes);

/// A grid with NaN between its rows of values, and what is added to it.
template <class T>
struct Case {
  Shape shape;
  StridedRows<T> v;
  std::vector<float> weight;
  std::vector<T> y;

  explicit Case(const Shape& its_shape)
      : shape(its_shape),
        v(shape.rows * shape.columns, shape.dim, 5, Fill::normal, 1),
        weight(static_cast<std::size_t>(shape.size * shape.size * shape.dim)),
        y(static_cast<std::size_t>(v.rows * v.dim)) {
    fill(weight, Fill::normal, 2);
    fill(y, Fill::normal, 3);
  }
  /// Patches first .. first + count; `found` holds y and receives the result.
  AddParams<T> params(std::int64_t first, std::int64_t count, T* found) const {
    return {shape, v.data(), v.stride, weight.data(), first, count, found, shape.dim};
  }
};

template <class T>
void expect_sums(const Shape& shape) {
  SCOPED_TRACE(std::to_string(shape.rows) + "x" + std::to_string(shape.columns) + " patches of " +
               std::to_string(shape.dim) + ", size " + std::to_string(shape.size));
  const Case<T> problem(shape);
  std::vector<T> start = problem.y;
  const std::int64_t patches = shape.rows * shape.columns;
  const std::vector<double> expected =
      local_convolution::add_reference(problem.params(0, patches, start.data()));
  for_each_instruction_set([&] {
    Guarded<T> found(problem.y.size());
    std::copy(problem.y.begin(), problem.y.end(), found.begin());
    local_convolution::add(problem.params(0, patches, found.data()));
    // 49 products and one rounding to T.
    expect_close(found.data(), expected, sizeof(T) == 2 ? 4e-3 : 3e-6, 1e-6,
                 static_cast<std::size_t>(shape.dim), "sums");
    EXPECT_TRUE(found.intact());
  });
}

TYPED_TEST(LocalConvolution, EqualsTheEquation) {
  for (const std::int64_t size : {1, 3, 5, 7}) {
    expect_sums<TypeParam>({6, 11, 64, size});
    for (const std::int64_t dim : {1, 7, 33, 192}) expect_sums<TypeParam>({3, 9, dim, size});
    // Grids that are smaller than the neighbourhood.
    for (const std::int64_t columns : {1, 2, 5}) expect_sums<TypeParam>({1, columns, 40, size});
    expect_sums<TypeParam>({14, 1, 40, size});
  }
}

TYPED_TEST(LocalConvolution, TilesGiveTheSameBits) {
  const Case<TypeParam> problem({5, 13, 48, 5});
  for_each_instruction_set([&] {
    std::vector<TypeParam> whole = problem.y;
    local_convolution::add(problem.params(0, 65, whole.data()));
    for (const std::int64_t rows : {1, 3, 4, 17}) {
      std::vector<TypeParam> tiled = problem.y;
      for (std::int64_t first = 0; first < 65; first += rows)
        local_convolution::add(problem.params(first, std::min<std::int64_t>(rows, 65 - first),
                                              tiled.data() + first * 48));
      for (std::size_t i = 0; i < whole.size(); ++i)
        ASSERT_EQ(static_cast<float>(tiled[i]), static_cast<float>(whole[i])) << i;
    }
  });
}

TYPED_TEST(LocalConvolution, NanReachesItsFeatureOfThoseThatSeeIt) {
  Case<TypeParam> problem({4, 9, 20, 3});
  constexpr std::int64_t kPatch = 2 * 9 + 4;
  problem.v.at(kPatch, 6) = TypeParam(std::numeric_limits<float>::quiet_NaN());
  for_each_instruction_set([&] {
    std::vector<TypeParam> found = problem.y;
    local_convolution::add(problem.params(0, 36, found.data()));
    for (std::int64_t patch = 0; patch < 36; ++patch)
      for (std::int64_t f = 0; f < 20; ++f) {
        const bool sees = std::abs(patch / 9 - 2) <= 1 && std::abs(patch % 9 - 4) <= 1 && f == 6;
        ASSERT_EQ(std::isnan(static_cast<float>(found[static_cast<std::size_t>(patch * 20 + f)])),
                  sees)
            << "patch " << patch << ", feature " << f;
      }
  });
}

}  // namespace local_convolution_test
}  // namespace hydrascope::kernels::test
