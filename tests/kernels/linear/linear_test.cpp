#include "kernels/linear/linear.h"

#include "tests/kernels/linear/linear_layer.h"
#include "tests/kernels/linear/linear_reference.h"

#include <gtest/gtest.h>

namespace hydrascope::kernels::test {
namespace linear_test {

using linear::Epilogue;
using linear::LinearParams;
using linear::PackedWeight;

template <class T>
class LinearKernel : public ::testing::Test {};
TYPED_TEST_SUITE(LinearKernel, CpuTypes);

template <class T>
void compare(std::int64_t rows, std::int64_t in, std::int64_t out, Epilogue epilogue, Fill how) {
  LinearLayer<T> layer(rows, in, out, how);
  const LinearParams<T> params = layer.params(epilogue);
  const std::vector<double> expected = linear::linear_reference(params, layer.weight);
  linear::linear(params);
  expect_rows(layer.y, expected, rounding<T>(), 2e-5, layer.name());
}

TYPED_TEST(LinearKernel, EqualsTheNaiveProductOnEveryShapeAndInstructionSet) {
  for_each_instruction_set([] {
    for (const std::int64_t rows : {1, 2, 5, 6, 7, 33})
      for (const auto& [in, out] : {std::pair<std::int64_t, std::int64_t>{64, 64},
                                    {192, 70},
                                    {31, 130},
                                    {1, 1},
                                    {96, 1000}})
        for (const Epilogue epilogue : {Epilogue::store, Epilogue::gelu, Epilogue::add})
          compare<TypeParam>(rows, in, out, epilogue, Fill::normal);
  });
}

TYPED_TEST(LinearKernel, EqualsTheNaiveProductOnEveryKindOfInput) {
  for (const Fill how : kAllFills) compare<TypeParam>(13, 77, 65, Epilogue::store, how);
}

TYPED_TEST(LinearKernel, NanReachesItsRowOnly) {
  std::vector<float> weight(64 * 64, 0.5F);
  const PackedWeight packed(sizeof(TypeParam) == 2 ? Storage::bfloat16 : Storage::float32,
                            weight.data(), 64, 64, 64);
  std::vector<TypeParam> x(3 * 64, TypeParam(1.0F));
  std::vector<TypeParam> y(3 * 64);
  x[64] = TypeParam(std::numeric_limits<float>::quiet_NaN());
  for (const Epilogue epilogue : {Epilogue::store, Epilogue::gelu}) {
    linear::linear(
        LinearParams<TypeParam>{x.data(), 64, 3, &packed, nullptr, y.data(), 64, epilogue});
    EXPECT_FALSE(std::isnan(static_cast<float>(y[0])));
    EXPECT_TRUE(std::isnan(static_cast<float>(y[64 + 7])));
    EXPECT_FALSE(std::isnan(static_cast<float>(y[128])));
  }
}

}  // namespace linear_test
}  // namespace hydrascope::kernels::test
