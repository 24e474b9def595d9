#include "kernels/quantised_linear/quantised_linear.h"

#include "kernels/error.h"
#include "tests/kernels/amx/trapped_tiles.h"
#include "tests/kernels/linear/linear_layer.h"
#include "tests/kernels/quantised_linear/quantised_linear_reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace hydrascope::kernels::test {
namespace quantised_linear_test {

namespace ql = quantised_linear;
using linear::Epilogue;
using ql::QuantisedWeight;

constexpr ql::WeightForm kForms[] = {ql::WeightForm::quads, ql::WeightForm::pairs,
                                     ql::WeightForm::tiles};

template <class T>
class QuantisedLinearKernel : public ::testing::Test {};
TYPED_TEST_SUITE(QuantisedLinearKernel, CpuTypes);

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

template <class T>
void compare(std::int64_t rows, std::int64_t in, std::int64_t out, Epilogue epilogue, Fill how,
             bool with_multiplier) {
  SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(in) + "x" + std::to_string(out));
  LinearLayer<T> layer(rows, in, out, how);
  Guarded<float> multiplier(static_cast<std::size_t>(in));
  for (std::int64_t k = 0; k < in; ++k)
    multiplier[static_cast<std::size_t>(k)] = 0.5F + 0.25F * static_cast<float>(k % 5);
  OwnedRows quantised(rows, in);
  ql::quantise(ql::QuantiseParams<T>{layer.x.data(), layer.x.stride, rows, in,
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
      const float value = static_cast<float>(layer.x.of(r, k)) *
                          (with_multiplier ? multiplier[static_cast<std::size_t>(k)] : 1.0F);
      ASSERT_NEAR(step * u + least, value, 0.5001F * step + 1e-6F * std::abs(value))
          << "row " << r << ", column " << k;
    }
  }

  const QuantisedWeight packed(layer.weight.data(), out, in, in);
  const ql::LinearParams<T> params{quantised.view(), rows,           &packed, layer.bias.data(),
                                   layer.y.data(),   layer.y.stride, epilogue};
  const std::vector<double> expected =
      ql::linear_reference(params, ql::quantised_weight_reference(layer.weight, out, in));
  ql::linear(params);
  // The integer sum is exact; its float32 image and the cancelling least * sum are not.
  const double size = how == Fill::large ? 300 : 3;
  expect_rows(layer.y, expected, rounding<T>(), 1e-5 * size, "y");
}

TYPED_TEST(QuantisedLinearKernel, EqualsTheNaiveProductOnEveryShapeAndInstructionSet) {
  for_each_instruction_set([] {
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
  for_each_instruction_set([] {
    for (const Fill how : kAllFills)
      for (const bool multiplier : {false, true})
        compare<TypeParam>(13, 77, 65, Epilogue::store, how, multiplier);
  });
}

// Rows longer than what is ordered at a time.
TYPED_TEST(QuantisedLinearKernel, EqualsTheNaiveProductOfLongRows) {
  for_each_instruction_set(
      [] { compare<TypeParam>(13, 2100, 65, Epilogue::add, Fill::normal, false); });
}

/// The layer's y by weights in a form.
template <class T>
std::vector<T> product_in(ql::WeightForm form, const std::vector<float>& weight, ql::Rows rows,
                          std::int64_t count, std::int64_t in, std::int64_t out) {
  const QuantisedWeight packed(weight.data(), out, in, in, form);
  std::vector<T> y(static_cast<std::size_t>(count * out));
  ql::linear(ql::LinearParams<T>{rows, count, &packed, nullptr, y.data(), out, Epilogue::store});
  return y;
}

// Pairs of int16 saturate above 32767; ordered pairs and their excess leave no sum another one. The
// largest weights of all, of one sign and of both, leave the most.
TEST(QuantisedWeightForms, PairsGiveTheBitsOfQuads) {
  constexpr std::int64_t kRows = 7;
  constexpr std::int64_t kOut = 70;
  for_each_instruction_set([&] {
    if (ql::fastest_form() != ql::WeightForm::pairs) return;
    for (const std::int64_t in : {5, 64, 192, 1030}) {
      for (const int kind : {0, 1, 2, 3}) {
        SCOPED_TRACE("in " + std::to_string(in) + ", weights " + std::to_string(kind));
        std::vector<float> weight = random_weight<float>(kOut, in);
        for (std::size_t i = 0; i < weight.size(); ++i) {
          if (kind == 1) weight[i] = 1;
          if (kind == 2) weight[i] = i * 7919 % 13 < 6 ? 1.0F : -1.0F;
          if (kind == 3) weight[i] = i * 7919 % 13 < 6 ? 0.5F + 0.5F * weight[i] : -1.0F;
        }
        OwnedRows rows(kRows, in);
        for (std::int64_t r = 0; r < kRows; ++r) {
          rows.scale[static_cast<std::size_t>(r)] = 0.5F;
          rows.least[static_cast<std::size_t>(r)] = 0;
          for (std::int64_t k = 0; k < ql::row_bytes(in); ++k)
            rows.values[static_cast<std::size_t>(r * ql::row_bytes(in) + k)] =
                static_cast<std::uint8_t>(k >= in  ? 0
                                          : r == 0 ? 255
                                                   : (k * 97 + r * 31) % 256);
        }
        const auto quads =
            product_in<float>(ql::WeightForm::quads, weight, rows.view(), kRows, in, kOut);
        const auto pairs =
            product_in<float>(ql::WeightForm::pairs, weight, rows.view(), kRows, in, kOut);
        EXPECT_EQ(quads, pairs);
      }
    }
  });
}

TYPED_TEST(QuantisedLinearKernel, EveryTargetBesideAmxReadsTheFormThatItPacks) {
  for_each_target_beside_amx([] {
    for (const std::int64_t rows : {1, 14, 16, 36})
      compare<TypeParam>(rows, 77, 65, static_cast<Epilogue>(rows % 3), Fill::normal, false);
    const std::vector<float> weight = random_weight<float>(64, 64);
    for (const ql::WeightForm form : kForms) {
      if (ql::reads_form(form)) continue;
      EXPECT_THROW(QuantisedWeight(weight.data(), 64, 64, 64, form), Error);
    }
  });
}

TEST(QuantisedWeightTest, ATeamPacksTheSameBytes) {
  device::ThreadTeam team(3);
  for (const auto& [in, out] :
       {std::pair<std::int64_t, std::int64_t>{64, 64}, {77, 130}, {33, 1000}, {1, 1}}) {
    const std::vector<float> weight = random_weight<float>(out, in);
    const auto columns = static_cast<std::size_t>((out + 63) / 64 * 64);
    const AmxProcessor processor;
    for (const ql::WeightForm form : kForms) {
      if (!ql::reads_form(form)) continue;
      const QuantisedWeight one(weight.data(), out, in, in, form);
      const QuantisedWeight many(weight.data(), out, in, in, form, &team);
      EXPECT_TRUE(std::equal(one.scale(), one.scale() + columns, many.scale()));
      EXPECT_TRUE(std::equal(one.sum(), one.sum() + columns, many.sum()));
      const std::size_t bytes = columns * static_cast<std::size_t>(ql::row_bytes(in));
      const auto values = [&](const QuantisedWeight& of) {
        return form == ql::WeightForm::pairs ? of.pairs().group(0).values : of.panel(0);
      };
      EXPECT_EQ(0, std::memcmp(values(many), values(one), bytes));
    }
  }
}

TYPED_TEST(QuantisedLinearKernel, LargestSumsDoNotSaturate) {
  // All 255 times all 127: pairs exceed int16, the whole needs 27 bits.
  constexpr std::int64_t kIn = 4096;
  std::vector<float> weight(64 * kIn, 1.0F);
  for_each_instruction_set([&] {
    const QuantisedWeight packed(weight.data(), 64, kIn, kIn);
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
  for_each_instruction_set([&] {
    const QuantisedWeight packed(weight.data(), 64, 40, 40);
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
