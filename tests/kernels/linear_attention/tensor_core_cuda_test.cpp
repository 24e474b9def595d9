// Linear attention on tensor cores against the float64 twins.
#include "kernels/linear_attention/tensor_core.h"
#include "tests/kernels/linear_attention/linear_attention_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace hydrascope::kernels::test {
namespace tensor_core_cuda_test {

namespace tensor_core = linear_attention::cuda::tensor_core;

/// One map of each kind of kernel.
constexpr Feature kOfEachKind[] = {Feature::exp_pair, Feature::softmax_pair, Feature::exp,
                                   Feature::elu_plus_one};

/// The functions of tensor_core.h, where nothing falls back on float32 arithmetic.
template <class T>
struct Passes {
  std::int64_t multiprocessors = device::kMultiprocessors;

  [[nodiscard]] std::size_t workspace_bytes(const la::Shape& shape, const cuda::Extent& extent,
                                            bool backward) const {
    return tensor_core::workspace(shape, extent, backward).bytes();
  }
  void forward(const cuda::ForwardParams<T>& params) const {
    ASSERT_TRUE(tensor_core::serves(params));
    tensor_core::forward(params, nullptr, multiprocessors);
  }
  void backward(const cuda::BackwardParams<T>& params) const {
    ASSERT_TRUE(tensor_core::serves(params));
    tensor_core::backward(params, nullptr, multiprocessors);
  }
};

template <class T>
struct Packed : Problem<T> {
  bool ordinary;           ///< gradients are no differences of large terms
  bool subnormal = false;  ///< nor are they, in float16

  Packed(const la::Shape& of, std::int64_t images, std::int64_t tokens, Fill how = Fill::normal,
         std::optional<std::int64_t> queries = {})
      : Problem<T>(of, images, tokens, how, Layout::packed, queries),
        ordinary(how == Fill::normal && tokens > 17) {}
  void run(bool backward) { this->run_by(Passes<T>(), backward); }

  /// Features of both sides, S and y are rounded once each: in all four half units, that seldom add
  /// up. Exponents are sums of three terms, each rounded to 2^-24 of itself, powers of two and
  /// logarithms of 2^-22. Gradients are made from y and have one more product. Features that float16
  /// has as subnormal numbers are rounded to 2^-25, F of them; what it stores has a smallest unit.
  void compare(const Expected<T>& expected) {
    constexpr bool kNarrow = std::is_same_v<T, Float16>;
    const Bounds bounds{2.5 * rounding<T>(),  4 * rounding<T>(),     1e-6, 1e-6,
                        kNarrow ? 4e-6 : 0.0, kNarrow ? 6e-8 : 1e-30};
    if (ordinary) {
      expected.compare(*this, bounds, 2 * rounding<T>() + (subnormal ? 0.01 : 0));
    } else {
      expected.compare(*this, bounds);
    }
  }
  void check(bool backward = true, std::int64_t step = 1) {
    const Expected<T> expected(*this, backward, step);
    run(backward);
    compare(expected);
  }
};

template <class T>
class LinearAttentionTensorCores : public DeviceTest {
 protected:
  static bool serves(Feature feature) {
    return tensor_core::serves<T>(shape_of(feature, 1, 64, 64));
  }
};
using Stored = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(LinearAttentionTensorCores, Stored);

TYPED_TEST(LinearAttentionTensorCores, EqualsTheTwinsForEveryMap) {
  for (const Feature feature : kAllFeatures) {
    if (!this->serves(feature)) continue;
    for (const auto& [tokens, heads, images] :
         {std::tuple<std::int64_t, std::int64_t, std::int64_t>{1, 1, 1},
          {2, 1, 1},
          {31, 2, 1},
          {65, 1, 2}}) {
      SCOPED_TRACE(name_of(feature) + ", tokens " + std::to_string(tokens));
      Packed<TypeParam> problem(shape_of(feature, heads, 64, 64), images, tokens);
      problem.check();
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(LinearAttentionTensorCores, EqualsTheTwinsInEveryOrderOfThreads) {
  for (const Feature feature : kOfEachKind) {
    if (!this->serves(feature)) continue;
    SCOPED_TRACE(name_of(feature));
    Packed<TypeParam> problem(shape_of(feature, 1, 64, 64), 1, 66);
    const Expected<TypeParam> expected(problem, true, 1);
    for_each_schedule([&] {
      problem.run(true);
      problem.compare(expected);
    });
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(LinearAttentionTensorCores, EqualsTheTwinForManyTokens) {
  for (const Feature feature : kOfEachKind) {
    if (!this->serves(feature)) continue;
    for (const auto& [tokens, heads] :
         {std::pair<std::int64_t, std::int64_t>{64, 1}, {197, 3}, {577, 1}}) {
      SCOPED_TRACE(name_of(feature) + ", tokens " + std::to_string(tokens));
      Packed<TypeParam> problem(shape_of(feature, heads, 64, 64), 1, tokens);
      problem.check(false, tokens / 6);
      if (this->HasFatalFailure()) return;
    }
  }
}

/// In one type, since the twin takes its time.
using LinearAttentionTensorCoresParts = DeviceTest;
TEST_F(LinearAttentionTensorCoresParts, GradientsEqualTheTwin) {
  constexpr std::int64_t kTokens = 450;
  ASSERT_EQ(tensor_core::splits_of(kTokens, 1), 2);
  // Keys and queries rise and fall with the tokens, so that every tile and the second part raise
  // half of the maxima.
  Packed<BFloat16> problem(shape_of(Feature::exp_pair, 1, 64, 64), 1, kTokens);
  for (std::int64_t t = 0; t < kTokens; ++t)
    for (std::int64_t i = 0; i < 64; ++i) {
      const float rise = 0.02F * static_cast<float>(i % 2 == 0 ? t : -t);
      problem.k.at(0, t, i) = BFloat16(static_cast<float>(problem.k.at(0, t, i)) + rise);
      problem.q.at(0, t, i) = BFloat16(static_cast<float>(problem.q.at(0, t, i)) - rise);
    }
  problem.check(true, 7);
}

TYPED_TEST(LinearAttentionTensorCores, EqualsTheTwinsOnEveryKindOfInput) {
  for (const Feature feature : kAllFeatures) {
    if (!this->serves(feature)) continue;
    for (const Fill how : kAllFills) {
      if (how == Fill::normal) continue;
      SCOPED_TRACE(name_of(feature) + ", fill " + std::to_string(static_cast<int>(how)));
      Packed<TypeParam> problem(shape_of(feature, 1, 64, 64), 1, 18, how);
      problem.check();
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(LinearAttentionTensorCores, SmallGradientsAreNotLost) {
  Packed<TypeParam> problem(shape_of(Feature::exp_pair, 1, 64, 64), 1, 66);
  problem.grad_y.for_each(
      [](TypeParam& value) { value = TypeParam(static_cast<float>(value) * 1e-3F); });
  problem.subnormal = std::is_same_v<TypeParam, Float16>;
  problem.check();
}

TYPED_TEST(LinearAttentionTensorCores, TokensWeighTheirKeys) {
  for (const Feature feature :
       {Feature::exp_pair, Feature::softmax_both, Feature::unit, Feature::relu}) {
    if (!this->serves(feature)) continue;
    SCOPED_TRACE(name_of(feature));
    Packed<TypeParam> problem(shape_of(feature, 1, 64, 64), 1, 67);
    problem.extent.num_prefix = 5;
    problem.extent.prefix_weight = 0.75F;
    problem.extent.patch_weight = 0.2F;
    problem.check();
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(LinearAttentionTensorCores, TokensOfNoWeightAreNotThere) {
  Packed<TypeParam> problem(shape_of(Feature::exp_pair, 1, 64, 64), 1, 20);
  problem.extent.num_prefix = 3;
  problem.extent.prefix_weight = 0;
  problem.check();
}

TYPED_TEST(LinearAttentionTensorCores, QueriesMayBeFewerThanKeys) {
  Packed<TypeParam> problem(shape_of(Feature::exp_pair, 2, 64, 64), 2, 70, Fill::normal, 3);
  const Expected<TypeParam> expected(problem, false, 1);
  problem.run_by(Passes<TypeParam>(), /*backward=*/false, /*want_denominator=*/false);
  problem.compare(expected);
  Packed<TypeParam> none(shape_of(Feature::exp_pair, 2, 64, 64), 2, 70, Fill::normal, 0);
  none.run(false);
  EXPECT_EQ(none.state, problem.state);
  Packed<TypeParam> nothing(shape_of(Feature::exp_pair, 2, 64, 64), 2, 0);
  nothing.run(true);
  Packed<TypeParam> nobody(shape_of(Feature::exp_pair, 2, 64, 64), 0, 7);
  nobody.run(true);
}

/// The state and the denominators are a contract with the other kernels of the folder.
TYPED_TEST(LinearAttentionTensorCores, StateAndDenominatorsAreWhatTheHeaderSays) {
  for (const Feature feature : {Feature::exp_pair, Feature::exp_centred, Feature::relu}) {
    if (!this->serves(feature)) continue;
    SCOPED_TRACE(name_of(feature));
    const bool exponential = la::is_exponential(feature);
    const la::Shape shape = shape_of(feature, 2, 64, 64);
    Packed<TypeParam> problem(shape, 1, 66);
    problem.run(false);
    const std::int64_t features = shape.features();
    const auto mapped = [&](TokenRows<TypeParam>& rows, std::int64_t t, std::int64_t h) {
      std::vector<double> u;
      for (std::int64_t i = 0; i < 64; ++i)
        u.push_back(static_cast<double>(static_cast<float>(rows.at(0, t, h * 64 + i))));
      const double most = *std::max_element(u.begin(), u.end());
      const double least = *std::min_element(u.begin(), u.end());
      std::vector<double> values;
      for (std::int64_t f = 0; f < features; ++f) {
        const double x = u[to_size(f % 64)];
        if (feature == Feature::relu) values.push_back(std::max(x, 0.0));
        if (feature == Feature::exp_pair) values.push_back(f < 64 ? x : -x);
        if (feature == Feature::exp_centred) values.push_back(f < 64 ? x - most : least - x);
      }
      return values;
    };
    for (std::int64_t h = 0; h < 2; ++h) {
      std::vector<double> maxima(to_size(features), exponential ? -1e30 : 0.0);
      for (std::int64_t t = 0; t < 66 && exponential; ++t)
        for (std::int64_t f = 0; f < features; ++f)
          maxima[to_size(f)] = std::max(maxima[to_size(f)], mapped(problem.k, t, h)[to_size(f)]);
      std::vector<double> z(to_size(features));
      for (std::int64_t f = 0; f < features; ++f) {
        double s = 0;
        double size = 0;
        for (std::int64_t t = 0; t < 66; ++t) {
          double b = mapped(problem.k, t, h)[to_size(f)];
          if (exponential) b = std::exp(b - maxima[to_size(f)]);
          const double value =
              static_cast<double>(static_cast<float>(problem.v.at(0, t, h * 64 + 9)));
          z[to_size(f)] += b;
          s += b * value;
          size += b * std::abs(value);
        }
        const double relative = 1.2 * rounding<TypeParam>();
        const std::int64_t row = h * features + f;
        EXPECT_NEAR(problem.state[to_size(row * 64 + 9)], s, relative * size);
        EXPECT_NEAR(problem.state[to_size(2 * features * 64 + row)], z[to_size(f)],
                    relative * z[to_size(f)]);
        EXPECT_NEAR(problem.state[to_size(2 * features * 65 + row)], maxima[to_size(f)], 1e-6);
      }
      for (std::int64_t t = 0; t < 66; ++t) {
        std::vector<double> a = mapped(problem.q, t, h);
        double most = -1e30;
        double m = exponential ? 0 : 1e-6;
        for (std::size_t f = 0; f < a.size() && exponential; ++f)
          most = std::max(most, a[f] + maxima[f]);
        for (std::size_t f = 0; f < a.size(); ++f)
          m += (exponential ? std::exp(a[f] + maxima[f] - most) : a[f]) * z[f];
        EXPECT_NEAR(problem.denominator[to_size(h * 66 + t)], m, 2 * rounding<TypeParam>() * m);
      }
    }
  }
}

TYPED_TEST(LinearAttentionTensorCores, NanReachesWhatDependsOnItAndNothingElse) {
  const TypeParam nan(std::numeric_limits<float>::quiet_NaN());
  for (const Feature feature : kAllFeatures) {
    if (!this->serves(feature)) continue;
    SCOPED_TRACE(name_of(feature));
    Packed<TypeParam> problem(shape_of(feature, 3, 64, 64), 1, 20);
    problem.q.at(0, 2, 63) = nan;        // row 2 of head 0
    problem.k.at(0, 19, 64 + 3) = nan;   // all of head 1
    problem.v.at(0, 6, 128 + 63) = nan;  // the last column of head 2
    problem.run(false);
    for (std::int64_t r = 0; r < 20; ++r)
      for (std::int64_t c = 0; c < 192; ++c) {
        const bool expected = c < 64 ? r == 2 : c < 128 || c == 191;
        ASSERT_EQ(std::isnan(static_cast<float>(problem.y.at(0, r, c))), expected)
            << "row " << r << ", column " << c;
      }
    // Gradients: a NaN in grad_y spoils its query, and all keys of its head.
    Packed<TypeParam> reversed(shape_of(feature, 2, 64, 64), 1, 20);
    reversed.grad_y.at(0, 4, 7) = nan;
    reversed.run(true);
    const auto is_nan = [](TokenRows<TypeParam>& rows, std::int64_t t, std::int64_t c) {
      return std::isnan(static_cast<float>(rows.at(0, t, c)));
    };
    for (std::int64_t r = 0; r < 20; ++r) {
      ASSERT_EQ(is_nan(reversed.grad_q, r, 5), r == 4 && feature != Feature::relu) << "row " << r;
      ASSERT_TRUE(is_nan(reversed.grad_v, r, 7)) << "row " << r;
      for (std::int64_t c = 64; c < 128; ++c)
        ASSERT_FALSE(is_nan(reversed.grad_q, r, c) || is_nan(reversed.grad_k, r, c) ||
                     is_nan(reversed.grad_v, r, c));
    }
  }
}

TYPED_TEST(LinearAttentionTensorCores, AnImageIsTheSameAloneAndAmongOthersAndAgain) {
  for (const std::int64_t tokens : {90, 460}) {  // in one part and in two
    const la::Shape shape = shape_of(Feature::exp_pair, 1, 64, 64);
    Packed<TypeParam> both(shape, 2, tokens);
    both.run(true);
    Packed<TypeParam> again(shape, 2, tokens);
    again.run(true);
    for (std::int64_t b = 0; b < 2; ++b) {
      Packed<TypeParam> alone(shape, 1, tokens);
      for (const auto part : {&Problem<TypeParam>::q, &Problem<TypeParam>::k,
                              &Problem<TypeParam>::v, &Problem<TypeParam>::grad_y})
        (alone.*part).take(both.*part, b);
      alone.run(true);
      for (const auto part : {&Problem<TypeParam>::y, &Problem<TypeParam>::grad_q,
                              &Problem<TypeParam>::grad_k, &Problem<TypeParam>::grad_v}) {
        const std::vector<TypeParam> bits = (both.*part).values(b, 1);
        ASSERT_TRUE(same_bits(bits, (alone.*part).values()));
        ASSERT_TRUE(same_bits(bits, (again.*part).values(b, 1)));
      }
    }
  }
}

/// Blocks of several tiles, the last of which has no rows, against blocks of one.
TYPED_TEST(LinearAttentionTensorCores, RowsDoNotDependOnTheBlockTheyAreIn) {
  constexpr std::int64_t kTokens = 261;
  for (const Feature feature : kOfEachKind) {
    if (!this->serves(feature)) continue;
    SCOPED_TRACE(name_of(feature));
    Packed<TypeParam> alone(shape_of(feature, 2, 64, 64), 1, kTokens);
    alone.run(true);
    ASSERT_EQ(tensor_core::tiles_a_block(1, 2, kTokens), 1);
    Packed<TypeParam> together(shape_of(feature, 2, 64, 64), 1, kTokens);
    EXPECT_EQ(tensor_core::tiles_a_block(1, 2, kTokens, 1), 3);
    together.run_by(Passes<TypeParam>{1}, true);
    for (const auto part : {&Problem<TypeParam>::y, &Problem<TypeParam>::grad_q,
                            &Problem<TypeParam>::grad_k, &Problem<TypeParam>::grad_v})
      ASSERT_TRUE(same_bits((alone.*part).values(), (together.*part).values()));
    EXPECT_EQ(alone.denominator, together.denominator);
  }
}

TEST(LinearAttentionTensorCoresDoor, ServesWhatItSaysAndRefusesTheRest) {
  la::Shape shape = shape_of(Feature::exp_pair, 12, 64, 64);
  EXPECT_TRUE(tensor_core::serves<BFloat16>(shape));
  EXPECT_TRUE(tensor_core::serves<Float16>(shape));
  EXPECT_FALSE(tensor_core::serves<float>(shape));
  EXPECT_TRUE(tensor_core::serves<BFloat16>(shape_of(Feature::unit, 1, 64, 64)));
  EXPECT_FALSE(tensor_core::serves<Float16>(shape_of(Feature::unit, 1, 64, 64)));
  shape.head_dim = 32;
  EXPECT_FALSE(tensor_core::serves<BFloat16>(shape));
  shape.head_dim = 64;
  shape.width = 48;
  EXPECT_FALSE(tensor_core::serves<BFloat16>(shape));

  const Packed<BFloat16> problem(shape_of(Feature::exp_pair, 1, 64, 64), 1, 4);
  alignas(16) BFloat16 memory[24] = {};
  const cuda::Rows<const BFloat16> rows{memory, 64, 256};
  alignas(16) float state[8] = {};
  const cuda::ForwardParams<BFloat16> good{problem.shape,    problem.extent, rows,    rows,   rows,
                                           {memory, 64, 64}, state,          nullptr, nullptr};
  EXPECT_TRUE(tensor_core::serves(good));
  auto bad = good;
  bad.q.data = memory + 4;
  EXPECT_FALSE(tensor_core::serves(bad));
  bad = good;
  bad.v.stride = 68;
  EXPECT_FALSE(tensor_core::serves(bad));
  bad = good;
  bad.y.image_stride = 100;
  EXPECT_FALSE(tensor_core::serves(bad));
  bad = good;
  bad.state = state + 1;
  EXPECT_FALSE(tensor_core::serves(bad));
  bad = good;
  bad.extent.patch_weight = -1;
  EXPECT_FALSE(tensor_core::serves(bad));
}

TEST(LinearAttentionTensorCoresGeometry, PartsDependOnTheTokensAndFillTheGpuAtBatchOne) {
  EXPECT_EQ(tensor_core::splits_of(1, 12), 1);
  EXPECT_EQ(tensor_core::splits_of(197, 12), 1);
  EXPECT_EQ(tensor_core::splits_of(577, 12), 2);
  EXPECT_EQ(tensor_core::splits_of(8161, 12), 22);
  EXPECT_EQ(tensor_core::splits_of(8161, 3), 32);
  EXPECT_EQ(tensor_core::splits_of(32401, 12), 22);
  EXPECT_EQ(tensor_core::splits_of(32401, 1000), 1);
  for (const std::int64_t tokens : {1, 63, 64, 65, 500, 8161, 100000})
    for (const std::int64_t heads : {1, 3, 12, 300}) {
      const std::int64_t splits = tensor_core::splits_of(tokens, heads);
      EXPECT_LE(splits, tensor_core::tiles_of(tokens));  // none is empty
      for (const std::int64_t images : {1, 7, 4096}) {
        EXPECT_EQ(device::illegal(tensor_core::state_geometry(images, heads, tokens)), "");
        const device::Geometry rows = tensor_core::rows_geometry(images, heads, tokens);
        EXPECT_EQ(device::illegal(rows), "");
        // Every tile has a block, and no block is without a tile.
        const std::int64_t a_block = tensor_core::tiles_a_block(images, heads, tokens);
        const std::int64_t blocks = rows.grid.x / images;
        EXPECT_GE(blocks * a_block, tensor_core::tiles_of(tokens));
        EXPECT_LT((blocks - 1) * a_block, tensor_core::tiles_of(tokens));
        EXPECT_EQ(device::illegal(
                      cuda::combine_geometry(shape_of(Feature::exp_pair, heads, 64, 64), images)),
                  "");
      }
    }
}

}  // namespace tensor_core_cuda_test
}  // namespace hydrascope::kernels::test
