#include "kernels/linear/linear.h"

#include "tests/kernels/kernel_case.h"
#include "tests/kernels/linear/linear_reference.h"

#include <gtest/gtest.h>

namespace hydrascope::kernels::test {
namespace linear_test {

using linear::Epilogue;
using linear::LinearParams;
using linear::PackedWeight;

template <class T>
class LinearKernel : public testing::Test {};
using Stored = testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(LinearKernel, Stored);

template <class T>
void compare(std::int64_t rows, std::int64_t in, std::int64_t out, Epilogue epilogue, Fill how) {
  std::vector<float> weight(static_cast<std::size_t>(out * in));
  fill(weight, Fill::normal, 1);
  for (float& w : weight) w = static_cast<float>(T(w / std::sqrt(static_cast<float>(in))));
  const PackedWeight packed(sizeof(T) == 2 ? Storage::bfloat16 : Storage::float32, weight.data(),
                            out, in, in);
  Guarded<float> bias(static_cast<std::size_t>(out));
  fill(bias, Fill::normal, 2);
  const std::int64_t x_stride = in + 5;  // NaN lies between the rows
  const std::int64_t y_stride = out + 3;
  Guarded<T> x(static_cast<std::size_t>(rows * x_stride));
  Guarded<T> y(static_cast<std::size_t>(rows * y_stride));
  std::vector<T> inside(static_cast<std::size_t>(rows * in));
  fill(inside, how, 3);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t k = 0; k < in; ++k)
      x[static_cast<std::size_t>(r * x_stride + k)] = inside[static_cast<std::size_t>(r * in + k)];
    for (std::int64_t o = 0; o < out; ++o)
      y[static_cast<std::size_t>(r * y_stride + o)] = T(0.25F * static_cast<float>(o % 7));
  }
  const LinearParams<T> params{x.data(),    x_stride, rows,     &packed,
                               bias.data(), y.data(), y_stride, epilogue};
  const std::vector<double> expected = linear::linear_reference(params, weight);
  linear::linear(params);
  std::vector<T> found;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t o = 0; o < out; ++o)
      found.push_back(y[static_cast<std::size_t>(r * y_stride + o)]);
    for (std::int64_t o = out; o < y_stride && r + 1 < rows; ++o)
      EXPECT_TRUE(std::isnan(static_cast<float>(y[static_cast<std::size_t>(r * y_stride + o)])));
  }
  expect_close(found.data(), expected, rounding<T>(), 2e-5, static_cast<std::size_t>(out),
               std::to_string(rows) + "x" + std::to_string(in) + "x" + std::to_string(out));
  EXPECT_TRUE(y.intact());
}

TYPED_TEST(LinearKernel, EqualsTheNaiveProductOnEveryShapeAndInstructionSet) {
  for_each_instruction_set([](const std::string& name) {
    SCOPED_TRACE(name);
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
