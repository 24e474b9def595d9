// Linear attention on tensor cores against the float64 twins.
#include "kernels/error.h"
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

/// One map of each kind of kernel.
constexpr Feature kOfEachKind[] = {Feature::exp_pair, Feature::softmax_pair, Feature::exp,
                                   Feature::elu_plus_one};

template <class T>
struct Packed : Problem<T> {
  bool ordinary;  ///< gradients are no differences of large terms

  Packed(const la::Shape& of, std::int64_t images, std::int64_t tokens, Fill how = Fill::normal,
         std::optional<std::int64_t> queries = {})
      : Problem<T>(of, images, tokens, how, queries),
        ordinary(how == Fill::normal && tokens > 17) {}

  /// Features of both sides, S and y are rounded once each: in all four half units, that seldom add
  /// up. Exponents are sums of three terms, each rounded to 2^-24 of itself, powers of two and
  /// logarithms of 2^-22. Gradients are made from y and have one more product. Features that float16
  /// has as subnormal numbers are rounded to 2^-25, F of them; what it stores has a smallest unit.
  void compare(const Expected<T>& expected) {
    constexpr bool kNarrow = std::is_same_v<T, Float16>;
    const Bounds bounds{2.5 * rounding<T>(),  4 * rounding<T>(),     1e-6, 1e-6,
                        kNarrow ? 4e-6 : 0.0, kNarrow ? 6e-8 : 1e-30};
    if (ordinary) {
      expected.compare(*this, bounds, 2 * rounding<T>());
    } else {
      expected.compare(*this, bounds);
    }
  }
  void check(bool backward = true, std::int64_t step = 1) {
    const Expected<T> expected(*this, backward, step);
    this->run(backward);
    compare(expected);
  }
};

template <class T>
class LinearAttentionTensorCores : public DeviceTest {
 protected:
  static bool serves(Feature feature) {
    return cuda::serves<T>(shape_of(feature, 1, 64, 64), {1, 1, 1, 0, 1, 1});
  }
};
using Stored = ::testing::Types<BFloat16, Float16>;
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
  ASSERT_EQ(cuda::tensor_core::splits_of(kTokens, 1), 2);
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

TEST_F(LinearAttentionTensorCoresParts, SmallGradientsAreNotLost) {
  Packed<BFloat16> problem(shape_of(Feature::exp_pair, 1, 64, 64), 1, 66);
  problem.grad_y.for_each(
      [](BFloat16& value) { value = BFloat16(static_cast<float>(value) * 1e-3F); });
  problem.check();
}

TYPED_TEST(LinearAttentionTensorCores, TokensWeighTheirKeys) {
  for (const Feature feature :
       {Feature::exp_pair, Feature::softmax_both, Feature::unit, Feature::relu}) {
    if (!this->serves(feature)) continue;
    SCOPED_TRACE(name_of(feature));
    Packed<TypeParam> problem(shape_of(feature, 1, 64, 64), 1, 67);
    problem.extent.weights.num_prefix = 5;
    problem.extent.weights.prefix = 0.75F;
    problem.extent.weights.patch = 0.2F;
    problem.check();
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(LinearAttentionTensorCores, TokensOfNoWeightAreNotThere) {
  Packed<TypeParam> problem(shape_of(Feature::exp_pair, 1, 64, 64), 1, 20);
  problem.extent.weights.num_prefix = 3;
  problem.extent.weights.prefix = 0;
  problem.check();
}

TYPED_TEST(LinearAttentionTensorCores, QueriesMayBeFewerThanKeys) {
  Packed<TypeParam> problem(shape_of(Feature::exp_pair, 2, 64, 64), 2, 70, Fill::normal, 3);
  const Expected<TypeParam> expected(problem, false, 1);
  problem.run(/*backward=*/false, /*want_denominator=*/false);
  problem.compare(expected);
  Packed<TypeParam> none(shape_of(Feature::exp_pair, 2, 64, 64), 2, 70, Fill::normal, 0);
  none.run(false);
  EXPECT_EQ(none.state, problem.state);
  Packed<TypeParam> nothing(shape_of(Feature::exp_pair, 2, 64, 64), 2, 0);
  nothing.run(true);
  Packed<TypeParam> nobody(shape_of(Feature::exp_pair, 2, 64, 64), 0, 7);
  nobody.run(true);
}

TYPED_TEST(LinearAttentionTensorCores, StateAndDenominatorsAreWhatTheHeaderSays) {
  for (const Feature feature : {Feature::exp_pair, Feature::exp_centred, Feature::relu}) {
    if (!this->serves(feature)) continue;
    SCOPED_TRACE(name_of(feature));
    Packed<TypeParam> problem(shape_of(feature, 2, 64, 64), 1, 66);
    problem.run(false);
    expect_state(problem, rounding<TypeParam>());
  }
}

TYPED_TEST(LinearAttentionTensorCores, NanReachesWhatDependsOnItAndNothingElse) {
  for (const Feature feature : kAllFeatures) {
    if (!this->serves(feature)) continue;
    SCOPED_TRACE(name_of(feature));
    ASSERT_NO_FATAL_FAILURE(
        expect_reach_of_nan(Problem<TypeParam>(shape_of(feature, 4, 64, 64), 1, 20)));
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
      alone.take(both, b);
      alone.run(true);
      ASSERT_TRUE(same_bits(both.results(b), alone.results(0)));
      ASSERT_TRUE(same_bits(both.results(b), again.results(b)));
    }
  }
}

/// Blocks of several tiles, the last of which has no rows, against blocks of one.
TEST_F(LinearAttentionTensorCoresParts, RowsDoNotDependOnTheBlockTheyAreIn) {
  constexpr std::int64_t kImages = 66;
  constexpr std::int64_t kTokens = 130;
  ASSERT_EQ(cuda::tensor_core::tiles_a_block(kImages, 4, kTokens), 2);
  ASSERT_EQ(cuda::tensor_core::tiles_a_block(1, 4, kTokens), 1);
  for (const Feature feature : {Feature::exp_pair, Feature::softmax_pair}) {
    SCOPED_TRACE(name_of(feature));
    Packed<BFloat16> together(shape_of(feature, 4, 64, 64), kImages, kTokens);
    together.run(true);
    for (const std::int64_t b : {std::int64_t{0}, kImages - 1}) {
      Packed<BFloat16> alone(shape_of(feature, 4, 64, 64), 1, kTokens);
      alone.take(together, b);
      alone.run(true);
      ASSERT_TRUE(same_bits(alone.results(0), together.results(b)));
    }
  }
}

TEST(LinearAttentionServes, HeadsMapsAndWeightsThatKernelsKnow) {
  const cuda::Extent extent{1, 4, 4, 0, 1, 1};
  la::Shape shape = shape_of(Feature::exp_pair, 12, 64, 64);
  EXPECT_TRUE(cuda::serves<float>(shape, extent));
  EXPECT_TRUE(cuda::serves<BFloat16>(shape, extent));
  EXPECT_TRUE(cuda::serves<Float16>(shape, extent));
  EXPECT_TRUE(cuda::serves<BFloat16>(shape_of(Feature::unit, 1, 64, 64), extent));
  EXPECT_FALSE(cuda::serves<Float16>(shape_of(Feature::unit, 1, 64, 64), extent));
  EXPECT_FALSE(cuda::serves<BFloat16>(shape, {1, 4, 4, 0, 1, -1}));
  EXPECT_TRUE(cuda::serves<float>(shape, {1, 4, 4, 0, 1, -1}));
  shape.head_dim = 32;
  EXPECT_FALSE(cuda::serves<BFloat16>(shape, extent));
  EXPECT_TRUE(cuda::serves<float>(shape, extent));
  shape.head_dim = 33;
  EXPECT_FALSE(cuda::serves<float>(shape, extent));
}

TEST_F(LinearAttentionTensorCoresParts, WhatNoKernelServesIsRefused) {
  alignas(16) BFloat16 memory[24] = {};
  const cuda::Rows<const BFloat16> rows{memory, 64, 256};
  alignas(16) float state[8] = {};
  const cuda::ForwardParams<BFloat16> good{shape_of(Feature::exp_pair, 1, 64, 64),
                                           {1, 4, 4, 0, 1, 1},
                                           rows,
                                           rows,
                                           rows,
                                           {memory, 64, 64},
                                           state,
                                           nullptr,
                                           nullptr};
  const auto refused = [&](auto change) {
    auto params = good;
    change(params);
    EXPECT_THROW(cuda::forward(params, nullptr), Error);
  };
  refused([&](auto& p) { p.q.data = memory + 4; });
  refused([](auto& p) { p.v.stride = 68; });
  refused([](auto& p) { p.y.image_stride = 100; });
  refused([&](auto& p) { p.state = state + 1; });
  refused([](auto& p) { p.extent.weights.patch = -1; });
  refused([](auto& p) { p.shape.width = 48; });
}

}  // namespace tensor_core_cuda_test
}  // namespace hydrascope::kernels::test
