#include "kernels/hydra/hydra.h"

#include "tests/kernels/hydra/hydra_reference.h"
#include "tests/kernels/strided_rows.h"

#include <gtest/gtest.h>

namespace hydrascope::kernels::test {
namespace hydra_test {

using hydra::Norm;

constexpr hydra::Kernel kPublished{};

template <class T>
class HydraKernel : public ::testing::Test {};
TYPED_TEST_SUITE(HydraKernel, CpuTypes);

/// q, k, v side by side in one row, as the projection leaves them.
template <class T>
struct Tile {
  std::int64_t rows;
  std::int64_t dim;
  StridedRows<T> qkv;
  StridedRows<T> q_hat;
  Guarded<float> sum;

  Tile(std::int64_t rows_, std::int64_t dim_, Fill how)
      : rows(rows_),
        dim(dim_),
        qkv(rows, 3 * dim, 5, how, 3),
        q_hat(rows, dim, 3),
        sum(static_cast<std::size_t>(dim_)) {}

  hydra::ProjectParams<T> params(const hydra::Kernel& kernel) {
    return {qkv.data(),   qkv.stride,   rows,      qkv.data() + dim, qkv.data() + 2 * dim,
            qkv.stride,   rows,         dim,       kernel,           {2, 0.5, 1.25},
            q_hat.data(), q_hat.stride, sum.data()};
  }
};

template <class T>
void compare(std::int64_t rows, std::int64_t dim, const hydra::Kernel& kernel, Fill how) {
  SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(dim));
  Tile<T> tile(rows, dim, how);
  const hydra::ProjectParams<T> params = tile.params(kernel);
  const hydra::ProjectResult expected = hydra::project_reference(params);
  hydra::project(params);
  expect_rows(tile.q_hat, expected.q_hat, rounding<T>(), 1e-30, "q_hat");
  // Float32 whatever T is: terms of either sign, each summed with an error of 1e-7 of its size.
  const double many = 1e-6 * std::sqrt(static_cast<double>(rows));
  expect_close(tile.sum.data(), expected.sum, 2 * many, 1e-30, static_cast<std::size_t>(dim),
               "sum");
  EXPECT_TRUE(tile.sum.intact());
}

TYPED_TEST(HydraKernel, ProjectEqualsTheTwinOnEveryShapeAndInstructionSet) {
  for_each_instruction_set([] {
    for (const std::int64_t rows : {0, 1, 2, 31, 32, 33, 198})
      for (const std::int64_t dim : {1, 64, 97, 192})
        compare<TypeParam>(rows, dim, kPublished, Fill::normal);
    compare<TypeParam>(577, 97, kPublished, Fill::normal);
    compare<TypeParam>(5, 768, kPublished, Fill::normal);
  });
}

TYPED_TEST(HydraKernel, ProjectEqualsTheTwinForEveryNormAndEps) {
  for (const Norm norm_q : {Norm::l2, Norm::l1, Norm::none})
    for (const Norm norm_k : {Norm::l2, Norm::l1, Norm::none})
      for (const float eps : {1e-6F, 5.0F})
        compare<TypeParam>(7, 77, {{norm_q, eps}, {norm_k, eps}}, Fill::normal);
}

TYPED_TEST(HydraKernel, ProjectEqualsTheTwinOnEveryKindOfInput) {
  for (const Fill how : kAllFills) compare<TypeParam>(13, 77, {{Norm::l2}, {Norm::l1}}, how);
}

TYPED_TEST(HydraKernel, ProjectWorksInPlace) {
  for_each_instruction_set([] {
    Tile<TypeParam> tile(9, 77, Fill::normal);
    auto params = tile.params(kPublished);
    hydra::project(params);
    const std::vector<float> sum(tile.sum.begin(), tile.sum.end());
    params.q_hat = tile.qkv.data();
    params.q_hat_stride = params.stride;
    hydra::project(params);
    for (std::int64_t r = 0; r < 9; ++r)
      for (std::int64_t f = 0; f < 77; ++f) ASSERT_EQ(tile.qkv.of(r, f), tile.q_hat.of(r, f));
    for (std::size_t f = 0; f < sum.size(); ++f) ASSERT_EQ(tile.sum[f], sum[f]);
  });
}

TYPED_TEST(HydraKernel, RowsWithoutAQueryAreSummedAllTheSame) {
  for (const std::int64_t queries : {0, 1, 3, 4, 6, 9}) {
    Tile<TypeParam> tile(9, 77, Fill::normal);
    auto params = tile.params(kPublished);
    params.query_rows = queries;
    const hydra::ProjectResult expected = hydra::project_reference(params);
    hydra::project(params);
    expect_rows(tile.q_hat, expected.q_hat, rounding<TypeParam>(), 1e-30, "q_hat");
    expect_close(tile.sum.data(), expected.sum, 1e-5, 1e-30, 77, "sum");
    for (std::int64_t r = queries; r < 9; ++r)
      for (std::int64_t f = 0; f < 77; ++f) ASSERT_TRUE(tile.q_hat.is_nan(r, f));
  }
}

TYPED_TEST(HydraKernel, NanOfAQueryStaysInItsRowAndNanOfAKeyIsEverywhere) {
  for_each_instruction_set([] {
    Tile<TypeParam> tile(6, 77, Fill::normal);
    const TypeParam nan(std::numeric_limits<float>::quiet_NaN());
    tile.qkv.at(2, 76) = nan;
    hydra::project(tile.params(kPublished));
    for (std::int64_t r = 0; r < 6; ++r)
      for (std::int64_t f = 0; f < 77; ++f) ASSERT_EQ(tile.q_hat.is_nan(r, f), r == 2);
    for (const float s : tile.sum) ASSERT_FALSE(std::isnan(s));
    tile.qkv.at(4, 77 + 3) = nan;
    hydra::project(tile.params(kPublished));
    for (const float s : tile.sum) ASSERT_TRUE(std::isnan(s));
  });
}

TYPED_TEST(HydraKernel, GateEqualsTheTwin) {
  for_each_instruction_set([] {
    for (const std::int64_t rows : {0, 1, 2, 31, 33, 197})
      for (const std::int64_t dim : {1, 31, 64, 77, 192}) {
        StridedRows<TypeParam> q_hat(rows, dim, 3, Fill::normal, 1);
        Guarded<float> g(static_cast<std::size_t>(dim));
        fill(g, Fill::large, 2);
        StridedRows<TypeParam> y(rows, dim, 1);
        const hydra::GateParams<TypeParam> p{q_hat.data(), q_hat.stride, g.data(), rows,
                                             dim,          y.data(),     y.stride};
        const auto expected = hydra::gate_reference(p);
        hydra::gate(p);
        expect_rows(y, expected, rounding<TypeParam>(), 1e-30, std::to_string(rows));
      }
  });
}

TYPED_TEST(HydraKernel, AddGatedEqualsTheTwin) {
  for_each_instruction_set([] {
    const std::int64_t rows = 5;
    for (const std::int64_t dim : {1, 31, 64, 77, 192})
      for (const Norm norm : {Norm::l2, Norm::l1, Norm::none}) {
        StridedRows<TypeParam> q(rows, dim, 3, Fill::normal, 1);
        Guarded<float> g(static_cast<std::size_t>(dim));
        fill(g, Fill::normal, 2);
        StridedRows<TypeParam> y(rows, dim, 1, Fill::normal, 3);
        hydra::AddGatedParams<TypeParam> p{q.data(), q.stride, rows,     dim,
                                           {},       g.data(), y.data(), y.stride};
        p.rule = {norm, 0.5F};
        const auto expected = hydra::add_gated_reference(p);
        hydra::add_gated(p);
        expect_rows(y, expected, rounding<TypeParam>(), 1e-5, std::to_string(dim));
      }
  });
}

TYPED_TEST(HydraKernel, GateKeepsNanWhateverItsBitsAndRoundsAsStorageDoes) {
  for_each_instruction_set([] {
    std::vector<TypeParam> q_hat(70, TypeParam(1.0F));
    std::vector<float> g(70);
    fill(g, Fill::normal, 6);
    g[3] = std::bit_cast<float>(0x7fffffffU);
    g[69] = std::bit_cast<float>(0xffffffffU);
    g[5] = std::numeric_limits<float>::infinity();
    hydra::gate(hydra::GateParams<TypeParam>{q_hat.data(), 70, g.data(), 1, 70, q_hat.data(), 70});
    for (std::size_t f = 0; f < 70; ++f) {
      const auto found = static_cast<float>(q_hat[f]);
      if (f == 3 || f == 69) {
        EXPECT_TRUE(std::isnan(found)) << f;
      } else {
        EXPECT_EQ(found, static_cast<float>(TypeParam(g[f]))) << f;
      }
    }
  });
}

TEST(HydraCombine, EqualsTheTwin) {
  for_each_instruction_set([] {
    for (const std::int64_t count : {0, 1, 2, 43})
      for (const std::int64_t dim : {1, 31, 64, 77}) {
        Guarded<float> sums(static_cast<std::size_t>(count * dim));
        fill(sums, Fill::normal, 1);
        std::vector<float> feature_scale(static_cast<std::size_t>(dim));
        fill(feature_scale, Fill::ramp, 0);
        Guarded<float> g(static_cast<std::size_t>(dim));
        for (const float* by : {static_cast<const float*>(nullptr),
                                static_cast<const float*>(feature_scale.data())}) {
          const auto expected = hydra::combine_reference(sums.data(), count, dim, 0.7F, by);
          hydra::combine(sums.data(), count, dim, 0.7F, by, g.data());
          expect_close(g.data(), expected, 1e-5, 1e-30, static_cast<std::size_t>(dim), "g");
        }
        EXPECT_TRUE(g.intact());
      }
  });
}

}  // namespace hydra_test
}  // namespace hydrascope::kernels::test
