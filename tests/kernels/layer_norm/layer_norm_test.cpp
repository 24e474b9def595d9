#include "kernels/layer_norm/layer_norm.h"

#include "tests/kernels/layer_norm/layer_norm_reference.h"
#include "tests/kernels/strided_rows.h"

#include <gtest/gtest.h>

namespace hydrascope::kernels::test {
namespace layer_norm_test {

using layer_norm::LayerNormParams;

constexpr float kEps = 1e-6F;

template <class T>
class LayerNormKernel : public ::testing::Test {};
TYPED_TEST_SUITE(LayerNormKernel, CpuTypes);

struct Case {
  std::int64_t rows;
  std::int64_t dim;
  Fill how = Fill::normal;
  bool weight = true;
  bool bias = true;
  float mean = 0;  ///< added to every x
};

/// Rows `dim + gap` apart with NaN between them. In place: y is x.
template <class T>
void compare(const Case& c, bool in_place) {
  SCOPED_TRACE(std::to_string(c.rows) + "x" + std::to_string(c.dim) +
               (in_place ? " in place" : ""));
  Guarded<float> weight(static_cast<std::size_t>(c.dim));
  Guarded<float> bias(static_cast<std::size_t>(c.dim));
  fill(weight, Fill::normal, 1);
  fill(bias, Fill::normal, 2);
  StridedRows<T> x(c.rows, c.dim, 5);
  StridedRows<T> y(c.rows, c.dim, 3);
  std::vector<float> inside(static_cast<std::size_t>(c.rows * c.dim));
  fill(inside, c.how, 3);
  for (std::int64_t r = 0; r < c.rows; ++r)
    for (std::int64_t i = 0; i < c.dim; ++i)
      x.at(r, i) = T(inside[static_cast<std::size_t>(r * c.dim + i)] + c.mean);
  StridedRows<T>& out = in_place ? x : y;
  const LayerNormParams<T> params{x.data(),
                                  x.stride,
                                  c.rows,
                                  c.dim,
                                  c.weight ? weight.data() : nullptr,
                                  c.bias ? bias.data() : nullptr,
                                  kEps,
                                  out.data(),
                                  out.stride};
  const std::vector<double> expected = layer_norm::layer_norm_reference(params);
  layer_norm::layer_norm(params);
  // One rounding of the result, and of x - mean: a few times 2^-24 of values of order one.
  expect_rows(out, expected, rounding<T>(), 1e-6, "y");
}

TYPED_TEST(LayerNormKernel, EqualsTheEquationOnEveryShapeAndInstructionSet) {
  for_each_instruction_set([] {
    for (const std::int64_t rows : {0, 1, 2, 31, 33, 197})
      for (const std::int64_t dim : {1, 3, 15, 16, 17, 63, 64, 65, 100, 192})
        compare<TypeParam>({rows, dim}, false);
    for (const std::int64_t rows : {32, 198, 577}) compare<TypeParam>({rows, 70}, true);
    for (const std::int64_t dim : {384, 768, 1000}) compare<TypeParam>({7, dim}, true);
  });
}

TYPED_TEST(LayerNormKernel, WeightAndBiasMayBeAbsent) {
  for_each_instruction_set([] {
    for (const bool weight : {false, true})
      for (const bool bias : {false, true})
        for (const std::int64_t dim : {16, 77, 192})
          compare<TypeParam>({5, dim, Fill::normal, weight, bias}, dim == 77);
  });
}

TYPED_TEST(LayerNormKernel, EqualsTheEquationOnEveryKindOfInput) {
  for_each_instruction_set([] {
    for (const Fill how : kAllFills) compare<TypeParam>({13, 77, how}, false);
  });
}

TYPED_TEST(LayerNormKernel, LargeMeanCostsNoDigits) {
  // float32 keeps x = mean + noise to 2^-24 mean, and the kept x is normalised exactly. A variance
  // as E[x^2] - E[x]^2 would be wrong from the first digit here.
  for_each_instruction_set([] {
    for (const float mean : {-300.0F, 1e4F, 1e6F})
      for (const std::int64_t dim : {192, 777})
        compare<TypeParam>({9, dim, Fill::large, true, true, mean}, false);
  });
}

TYPED_TEST(LayerNormKernel, AConstantRowGivesTheBias) {
  for_each_instruction_set([] {
    for (const float value : {0.1F, -3.3F, 1234.567F, 1e6F + 0.3F, 123456789.0F}) {
      for (const std::int64_t dim : {3, 100, 192, 777, 1000}) {
        const auto size = static_cast<std::size_t>(dim);
        const std::vector<TypeParam> x(size, TypeParam(value));
        const std::vector<float> bias(size, 0.5F);
        std::vector<TypeParam> y(size);
        layer_norm::layer_norm(LayerNormParams<TypeParam>{x.data(), dim, 1, dim, nullptr,
                                                          bias.data(), kEps, y.data(), dim});
        // The rest of x - mean is below 2^-24 of the mean's own error, times 1 / sqrt(eps).
        for (const TypeParam found : y)
          ASSERT_NEAR(static_cast<float>(found), 0.5F, 2e-3F) << value << " x " << dim;
      }
    }
  });
}

TYPED_TEST(LayerNormKernel, NanAndInfinityStayInTheirRow) {
  constexpr std::int64_t kDim = 70;
  for_each_instruction_set([] {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      for (const std::int64_t at : {std::int64_t{0}, std::int64_t{37}, kDim - 1}) {
        std::vector<TypeParam> x(3 * kDim);
        fill(x, Fill::normal, 1);
        x[static_cast<std::size_t>(kDim + at)] = TypeParam(bad);
        std::vector<TypeParam> y(x.size());
        layer_norm::layer_norm(LayerNormParams<TypeParam>{x.data(), kDim, 3, kDim, nullptr, nullptr,
                                                          kEps, y.data(), kDim});
        for (std::int64_t i = 0; i < 3 * kDim; ++i)
          ASSERT_EQ(std::isnan(static_cast<float>(y[static_cast<std::size_t>(i)])), i / kDim == 1);
      }
    }
  });
}

TYPED_TEST(LayerNormKernel, ARowDependsOnNoOther) {
  constexpr std::int64_t kDim = 192;
  std::vector<TypeParam> x(6 * kDim);
  fill(x, Fill::normal, 1);
  std::vector<TypeParam> together(x.size());
  std::vector<TypeParam> alone(x.size());
  const auto run = [&](std::int64_t first, std::int64_t rows, std::vector<TypeParam>& y) {
    layer_norm::layer_norm(LayerNormParams<TypeParam>{x.data() + first * kDim, kDim, rows, kDim,
                                                      nullptr, nullptr, kEps,
                                                      y.data() + first * kDim, kDim});
  };
  run(0, 6, together);
  for (std::int64_t row = 0; row < 6; ++row) run(row, 1, alone);
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(static_cast<float>(alone[i]), static_cast<float>(together[i]));
}

}  // namespace layer_norm_test
}  // namespace hydrascope::kernels::test
