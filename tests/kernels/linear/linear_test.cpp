#include "kernels/linear/linear.h"

#include "kernels/error.h"
#include "tests/kernels/amx/trapped_tiles.h"
#include "tests/kernels/linear/linear_layer.h"
#include "tests/kernels/linear/linear_reference.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

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

// Pieces of a panel and blocks of rows change no sum's order; GELU is bfloat16's (gelu-inl.h).
TEST(LinearKernelOfFloat32, NarrowWeightsGiveTheBitsOfTheSameNumbersInFloat32) {
  constexpr float kErrorOfGelu = 1e-5F;
  for_each_instruction_set([] {
    for (const std::int64_t rows : {1, 7, 193, 400})
      for (const auto& [in, out] :
           {std::pair<std::int64_t, std::int64_t>{64, 64}, {1, 3}, {257, 70}, {601, 130}})
        for (const Epilogue epilogue : {Epilogue::store, Epilogue::gelu, Epilogue::add}) {
          LinearLayer<float> wide(rows, in, out);
          LinearLayer<float> narrow(rows, in, out);
          const std::vector<float> weight = random_weight<BFloat16>(out, in);
          wide.packed = PackedWeight(Storage::float32, weight.data(), out, in, in);
          narrow.packed =
              PackedWeight(Storage::bfloat16, weight.data(), out, in, in, linear::Form::panels);
          linear::linear(wide.params(epilogue));
          linear::linear(narrow.params(epilogue));
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t o = 0; o < out; ++o)
              ASSERT_NEAR(wide.y.at(r, o), narrow.y.at(r, o),
                          epilogue == Epilogue::gelu ? kErrorOfGelu : 0.0F)
                  << narrow.name();
        }
  });
}

TEST(PackedWeightTest, EveryTargetBesideAmxReadsTheFormThatItPacks) {
  for_each_target_beside_amx([] {
    for (const std::int64_t rows : {1, 14, 16, 36, 71})
      for (const auto& [in, out] :
           {std::pair<std::int64_t, std::int64_t>{77, 70}, {64, 64}, {31, 9}, {300, 33}})
        compare<BFloat16>(rows, in, out, static_cast<Epilogue>(rows % 3), Fill::normal);
    const std::vector<float> weight = random_weight<BFloat16>(64, 64);
    const auto pack = [&](linear::Form form) {
      return PackedWeight(Storage::bfloat16, weight.data(), 64, 64, 64, form);
    };
    if (pack(linear::Form::automatic).form() != linear::Form::tiles) {
      EXPECT_THROW(pack(linear::Form::tiles), Error);
      return;
    }
    const PackedWeight tiles = pack(linear::Form::tiles);
    std::vector<float> rows(64);
    EXPECT_THROW(linear::linear(LinearParams<float>{rows.data(), 64, 1, &tiles, nullptr,
                                                    rows.data(), 64, Epilogue::store}),
                 Error);
  });
}

TEST(PackedWeightTest, ATeamPacksTheSameBytes) {
  device::ThreadTeam team(3);
  for (const auto& [in, out] :
       {std::pair<std::int64_t, std::int64_t>{64, 64}, {77, 130}, {33, 1000}, {1, 1}}) {
    const std::vector<float> weight = random_weight<float>(out, in);
    for (const auto& [storage, form] : {std::pair{Storage::float32, linear::Form::panels},
                                        {Storage::bfloat16, linear::Form::panels},
                                        {Storage::bfloat16, linear::Form::automatic}}) {
      const AmxProcessor processor;
      const PackedWeight one(storage, weight.data(), out, in, in, form);
      const PackedWeight many(storage, weight.data(), out, in, in, form, &team);
      ASSERT_EQ(many.bytes(), one.bytes());
      EXPECT_EQ(many.form(), one.form());
      EXPECT_EQ(0, std::memcmp(many.panel<float>(0), one.panel<float>(0), one.bytes()));
    }
  }
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
