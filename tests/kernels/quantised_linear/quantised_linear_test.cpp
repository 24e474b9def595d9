#include "kernels/quantised_linear/quantised_linear.h"

#include "tests/kernels/kernel_case.h"
#include "tests/kernels/quantised_linear/quantised_linear_reference.h"

#include <gtest/gtest.h>

namespace hydrascope::kernels::test {
namespace quantised_linear_test {

namespace ql = quantised_linear;
using linear::Epilogue;
using ql::QuantisedWeight;

template <class T>
class QuantisedLinearKernel : public testing::Test {};
using Stored = testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(QuantisedLinearKernel, Stored);

/// Quantised rows with room behind them that must stay as it is.
struct OwnedRows {
  OwnedRows(std::int64_t rows, std::int64_t in)
      : values(static_cast<std::size_t>(rows * ql::row_bytes(in)) + 64),
        scale(static_cast<std::size_t>(rows)),
        least(static_cast<std::size_t>(rows)) {
    std::fill(values.begin(), values.end(), kUnwritten);
  }
  [[nodiscard]] ql::Rows view() { return {values.data(), scale.data(), least.data()}; }
  [[nodiscard]] bool intact() const {
    return scale.intact() && least.intact() &&
           std::all_of(values.end() - 64, values.end(),
                       [](std::uint8_t byte) { return byte == kUnwritten; });
  }
  static constexpr std::uint8_t kUnwritten = 0xa5;
  AlignedBuffer<std::uint8_t> values;
  Guarded<float> scale;
  Guarded<float> least;
};

std::vector<float> random_weight(std::int64_t out, std::int64_t in) {
  std::vector<float> weight(static_cast<std::size_t>(out * in));
  fill(weight, Fill::normal, 1);
  for (float& w : weight) w /= std::sqrt(static_cast<float>(in));
  return weight;
}

template <class T>
void compare(std::int64_t rows, std::int64_t in, std::int64_t out, Epilogue epilogue, Fill how,
             bool with_multiplier) {
  SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(in) + "x" + std::to_string(out));
  const std::int64_t x_stride = in + 5;  // NaN lies between the rows
  Guarded<T> x(static_cast<std::size_t>(rows * x_stride));
  std::vector<T> inside(static_cast<std::size_t>(rows * in));
  fill(inside, how, 3);
  for (std::int64_t r = 0; r < rows; ++r)
    std::copy_n(inside.begin() + r * in, in, x.begin() + r * x_stride);
  Guarded<float> multiplier(static_cast<std::size_t>(in));
  for (std::int64_t k = 0; k < in; ++k)
    multiplier[static_cast<std::size_t>(k)] = 0.5F + 0.25F * static_cast<float>(k % 5);
  OwnedRows quantised(rows, in);
  ql::quantise(ql::QuantiseParams<T>{x.data(), x_stride, rows, in,
                                     with_multiplier ? multiplier.data() : nullptr,
                                     quantised.view()});
  EXPECT_TRUE(quantised.intact());
  for (std::int64_t r = 0; r < rows; ++r) {
    const float step = quantised.scale[static_cast<std::size_t>(r)];
    const float least = quantised.least[static_cast<std::size_t>(r)];
    for (std::int64_t k = 0; k < ql::row_bytes(in); ++k) {
      const std::uint8_t u = quantised.values[static_cast<std::size_t>(r * ql::row_bytes(in) + k)];
      if (k >= in) {
        ASSERT_EQ(u, 0);
        continue;
      }
      const float value = static_cast<float>(inside[static_cast<std::size_t>(r * in + k)]) *
                          (with_multiplier ? multiplier[static_cast<std::size_t>(k)] : 1.0F);
      ASSERT_NEAR(step * u + least, value, 0.5001F * step + 1e-6F * std::abs(value))
          << "row " << r << ", column " << k;
    }
  }

  const std::vector<float> weight = random_weight(out, in);
  const QuantisedWeight packed(weight.data(), out, in, in);
  Guarded<float> bias(static_cast<std::size_t>(out));
  fill(bias, Fill::normal, 2);
  const std::int64_t y_stride = out + 3;
  Guarded<T> y(static_cast<std::size_t>(rows * y_stride));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t o = 0; o < out; ++o)
      y[static_cast<std::size_t>(r * y_stride + o)] = T(0.25F * static_cast<float>(o % 7));
  const ql::LinearParams<T> params{quantised.view(), rows,     &packed, bias.data(),
                                   y.data(),         y_stride, epilogue};
  const std::vector<double> expected =
      ql::linear_reference(params, ql::quantised_weight_reference(weight, out, in));
  ql::linear(params);
  std::vector<T> found;
  for (std::int64_t r = 0; r < rows; ++r) {
    found.insert(found.end(), y.begin() + r * y_stride, y.begin() + r * y_stride + out);
    for (std::int64_t o = out; o < y_stride && r + 1 < rows; ++o)
      EXPECT_TRUE(std::isnan(static_cast<float>(y[static_cast<std::size_t>(r * y_stride + o)])));
  }
  // The integer sum is exact; its float32 image and the cancelling least * sum are not.
  const double size = how == Fill::large ? 300 : 3;
  expect_close(found.data(), expected, rounding<T>(), 1e-5 * size, static_cast<std::size_t>(out),
               "y");
  EXPECT_TRUE(y.intact());
}

TYPED_TEST(QuantisedLinearKernel, EqualsTheNaiveProductOnEveryShapeAndInstructionSet) {
  for_each_instruction_set([](const std::string& name) {
    SCOPED_TRACE(name);
    for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 33})
      for (const auto& [in, out] : {std::pair<std::int64_t, std::int64_t>{64, 64},
                                    {192, 70},
                                    {31, 130},
                                    {1, 1},
                                    {3, 64},
                                    {97, 200}})
        for (const Epilogue epilogue : {Epilogue::store, Epilogue::gelu, Epilogue::add})
          compare<TypeParam>(rows, in, out, epilogue, Fill::normal, rows % 2 == 0);
  });
}

TYPED_TEST(QuantisedLinearKernel, EqualsTheNaiveProductOnEveryKindOfInput) {
  for_each_instruction_set([](const std::string& name) {
    SCOPED_TRACE(name);
    for (const Fill how : kAllFills)
      for (const bool multiplier : {false, true})
        compare<TypeParam>(13, 77, 65, Epilogue::store, how, multiplier);
  });
}

TYPED_TEST(QuantisedLinearKernel, LargestSumsDoNotSaturate) {
  // All 255 times all 127: pairs exceed int16, the whole needs 27 bits.
  constexpr std::int64_t kIn = 4096;
  std::vector<float> weight(64 * kIn, 1.0F);
  const QuantisedWeight packed(weight.data(), 64, kIn, kIn);
  for_each_instruction_set([&](const std::string& name) {
    SCOPED_TRACE(name);
    OwnedRows rows(1, kIn);
    std::fill_n(rows.values.begin(), kIn, std::uint8_t{255});
    rows.scale[0] = 1;
    rows.least[0] = 0;
    std::vector<TypeParam> y(64);
    ql::linear(ql::LinearParams<TypeParam>{rows.view(), 1, &packed, nullptr, y.data(), 64,
                                           Epilogue::store});
    for (const TypeParam value : y)
      ASSERT_NEAR(static_cast<float>(value), 255.0F * kIn, 255.0F * kIn * rounding<TypeParam>());
  });
}

TYPED_TEST(QuantisedLinearKernel, NanAndInfinityReachTheirRowOnly) {
  const std::vector<float> weight(64 * 40, 0.5F);
  const QuantisedWeight packed(weight.data(), 64, 40, 40);
  for_each_instruction_set([&](const std::string& name) {
    SCOPED_TRACE(name);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      for (const std::int64_t at : {0, 7, 39}) {
        std::vector<TypeParam> x(3 * 40, TypeParam(1.0F));
        x[static_cast<std::size_t>(40 + at)] = TypeParam(bad);
        std::vector<TypeParam> y(3 * 64);
        OwnedRows rows(3, 40);
        ql::quantise(ql::QuantiseParams<TypeParam>{x.data(), 40, 3, 40, nullptr, rows.view()});
        ql::linear(ql::LinearParams<TypeParam>{rows.view(), 3, &packed, nullptr, y.data(), 64,
                                               Epilogue::gelu});
        EXPECT_NEAR(static_cast<float>(y[0]), 20.0F, 0.1F);
        EXPECT_TRUE(std::isnan(static_cast<float>(y[64 + 7])));
        EXPECT_NEAR(static_cast<float>(y[128]), 20.0F, 0.1F);
      }
    }
  });
}

TEST(QuantisedWeight, AnOutputOfZerosStaysZero) {
  std::vector<float> weight(2 * 8, 0.0F);
  weight[9] = 3;
  const QuantisedWeight packed(weight.data(), 2, 8, 8);
  EXPECT_EQ(packed.scale()[0], 0.0F);
  EXPECT_EQ(packed.sum()[0], 0.0F);
  EXPECT_FLOAT_EQ(packed.scale()[1], 3.0F / 127.0F);
  EXPECT_FLOAT_EQ(packed.sum()[1], 3.0F);
  EXPECT_EQ(packed.scale()[2], 0.0F);  // filled up
}

}  // namespace quantised_linear_test
}  // namespace hydrascope::kernels::test
