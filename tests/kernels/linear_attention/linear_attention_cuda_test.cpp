// Linear attention on tensor cores against the float64 twins.
#include "kernels/error.h"
#include "tests/kernels/linear_attention/linear_attention_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace hydrascope::kernels::test {
namespace linear_attention_cuda_test {

/// One map of each kind of kernel.
constexpr Feature kOfEachKind[] = {Feature::exp_pair, Feature::softmax_pair, Feature::exp,
                                   Feature::elu_plus_one};

/// The right rows of a problem, found once for all schedules.
template <class T>
class Expected {
 public:
  /// y of every `step`th query of each image.
  explicit Expected(const Problem<T>& p, std::int64_t step = 1) : step_(step) {
    for (std::int64_t b = 0; b < p.extent.images; ++b)
      for (std::int64_t i = 0; i < p.extent.queries; i += step)
        rows_.push_back(la::linear_attention_reference(p.tokens(b), i));
  }
  /// Features of both sides, S and y are rounded once each: in all four half units, that seldom add
  /// up. Exponents are sums of three terms, each rounded to 2^-24 of itself, powers of two and
  /// logarithms of 2^-22. Features that float16 has as subnormal numbers are rounded to 2^-25, F of
  /// them; what it stores has a smallest unit.
  void compare(Problem<T>& p) const {
    constexpr bool kNarrow = std::is_same_v<T, Float16>;
    std::size_t next = 0;
    for (std::int64_t b = 0; b < p.extent.images; ++b)
      for (std::int64_t i = 0; i < p.extent.queries; i += step_) {
        const la::Mixed& mixed = rows_[next++];
        const std::vector<double>& expected = mixed.y.values;
        const std::vector<double>& magnitude = mixed.y.magnitudes;
        const double relative = 2.5 * rounding<T>() + 1e-6 * mixed.largest_exponent;
        const double absolute =
            kNarrow ? 4e-6 * *std::ranges::max_element(magnitude) + 6e-8 : 1e-30;
        for (std::size_t c = 0; c < expected.size(); ++c) {
          const auto found =
              static_cast<double>(static_cast<float>(p.y.at(b, i, static_cast<std::int64_t>(c))));
          ASSERT_LE(std::abs(found - expected[c]), relative * magnitude[c] + absolute)
              << "image " << b << ", row " << i << ", column " << c << ": found " << found
              << ", expected " << expected[c] << ", magnitude " << magnitude[c];
        }
      }
  }

 private:
  std::int64_t step_;
  std::vector<la::Mixed> rows_;
};

template <class T>
void check(Problem<T>& problem, std::int64_t step = 1) {
  const Expected<T> expected(problem, step);
  problem.run();
  expected.compare(problem);
}

template <class T>
class LinearAttentionTensorCores : public DeviceTest {
 protected:
  /// body(feature) for those of the maps that the kernels serve, until one fails.
  template <class Features, class Body>
  void for_each_map(const Features& features, const Body& body) {
    for (const Feature feature : features) {
      if (!cuda::serves<T>(shape_of(feature, 1, 64, 64), {1, 1, 1, 0, 1, 1})) continue;
      SCOPED_TRACE(name_of(feature));
      body(feature);
      if (this->HasFatalFailure()) return;
    }
  }
};
using Stored = ::testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(LinearAttentionTensorCores, Stored);

TYPED_TEST(LinearAttentionTensorCores, EqualsTheTwinsForEveryMap) {
  this->for_each_map(kAllFeatures, [](Feature feature) {
    for (const auto& [tokens, heads, images] :
         {std::tuple<std::int64_t, std::int64_t, std::int64_t>{1, 1, 1},
          {2, 1, 1},
          {31, 2, 1},
          {65, 1, 2}}) {
      SCOPED_TRACE(tokens);
      Problem<TypeParam> problem(shape_of(feature, heads, 64, 64), images, tokens);
      check(problem);
    }
  });
}

TYPED_TEST(LinearAttentionTensorCores, EqualsTheTwinsInEveryOrderOfThreadsAndForManyTokens) {
  this->for_each_map(kOfEachKind, [](Feature feature) {
    Problem<TypeParam> problem(shape_of(feature, 1, 64, 64), 1, 66);
    const Expected<TypeParam> expected(problem);
    for_each_schedule([&] {
      problem.run();
      expected.compare(problem);
    });
    for (const auto& [tokens, heads] :
         {std::pair<std::int64_t, std::int64_t>{64, 1}, {197, 3}, {577, 1}}) {
      SCOPED_TRACE(tokens);
      Problem<TypeParam> many(shape_of(feature, heads, 64, 64), 1, tokens);
      check(many, tokens / 6);
    }
  });
}

/// In one type, since the twin takes its time.
using LinearAttentionTensorCoresParts = DeviceTest;
TEST_F(LinearAttentionTensorCoresParts, RisingMaximaKeepWhatWasSummed) {
  constexpr std::int64_t kTokens = 450;
  ASSERT_EQ(cuda::splits_of(kTokens, 1), 2);
  // Keys and queries rise and fall with the tokens, so that every tile and the second part raise
  // half of the maxima.
  Problem<BFloat16> problem(shape_of(Feature::exp_pair, 1, 64, 64), 1, kTokens);
  for (std::int64_t t = 0; t < kTokens; ++t)
    for (std::int64_t i = 0; i < 64; ++i) {
      const float rise = 0.02F * static_cast<float>(i % 2 == 0 ? t : -t);
      problem.k.at(0, t, i) = BFloat16(static_cast<float>(problem.k.at(0, t, i)) + rise);
      problem.q.at(0, t, i) = BFloat16(static_cast<float>(problem.q.at(0, t, i)) - rise);
    }
  check(problem, 7);
}

TEST_F(LinearAttentionTensorCoresParts, RowsShorterThanTheLeastNormAreDividedByIt) {
  la::Shape shape = shape_of(Feature::unit, 1, 64, 64);
  shape.rule.unit_eps = 8;  // of normal rows about half are shorter
  Problem<BFloat16> problem(shape, 1, 20);
  check(problem);
}

TEST_F(LinearAttentionTensorCoresParts, DividesByWhatTheNormaliserSays) {
  la::Shape shape = shape_of(Feature::relu, 1, 64, 64);
  for (const Normaliser& normaliser :
       {Normaliser{Normaliser::Rule::none, 0}, Normaliser{Normaliser::Rule::add_eps, 40}}) {
    shape.rule.normaliser = normaliser;
    Problem<BFloat16> problem(shape, 1, 9);
    check(problem);
  }
}

TYPED_TEST(LinearAttentionTensorCores, EqualsTheTwinsOnEveryKindOfInput) {
  this->for_each_map(kAllFeatures, [](Feature feature) {
    for (const Fill how : kAllFills) {
      if (how == Fill::normal) continue;
      SCOPED_TRACE(static_cast<int>(how));
      Problem<TypeParam> problem(shape_of(feature, 1, 64, 64), 1, 18, how);
      check(problem);
    }
  });
}

TYPED_TEST(LinearAttentionTensorCores, TokensWeighTheirKeys) {
  constexpr Feature kSome[] = {Feature::exp_pair, Feature::softmax_both, Feature::unit,
                               Feature::relu};
  this->for_each_map(kSome, [](Feature feature) {
    Problem<TypeParam> problem(shape_of(feature, 1, 64, 64), 1, 67);
    problem.extent.weights.num_prefix = 5;
    problem.extent.weights.prefix = 0.75F;
    problem.extent.weights.patch = 0.2F;
    check(problem);
  });
}

TYPED_TEST(LinearAttentionTensorCores, TokensOfNoWeightAreNotThere) {
  Problem<TypeParam> problem(shape_of(Feature::exp_pair, 1, 64, 64), 1, 20);
  problem.extent.weights.num_prefix = 3;
  problem.extent.weights.prefix = 0;
  check(problem);
}

TYPED_TEST(LinearAttentionTensorCores, QueriesMayBeFewerThanKeys) {
  Problem<TypeParam> problem(shape_of(Feature::exp_pair, 2, 64, 64), 2, 70, Fill::normal, 3);
  const Expected<TypeParam> expected(problem);
  problem.run();
  expected.compare(problem);
  Problem<TypeParam> none(shape_of(Feature::exp_pair, 2, 64, 64), 2, 70, Fill::normal, 0);
  none.run();
  EXPECT_EQ(none.state, problem.state);
  Problem<TypeParam> nothing(shape_of(Feature::exp_pair, 2, 64, 64), 2, 0);
  nothing.run();
  Problem<TypeParam> nobody(shape_of(Feature::exp_pair, 2, 64, 64), 0, 7);
  nobody.run();
}

/// Gradients read it.
TYPED_TEST(LinearAttentionTensorCores, TheStateIsWhatTheHeaderSays) {
  this->for_each_map(kAllFeatures, [](Feature feature) {
    if (feature == Feature::unit) return;
    Problem<TypeParam> problem(shape_of(feature, 2, 64, 64), 1, 66);
    problem.run();
    const std::vector<double> expected = la::sums_reference(problem.tokens(0));
    ASSERT_EQ(problem.state.size(), expected.size());
    const std::size_t features = to_size(2 * problem.shape.features());
    double largest = 0;
    problem.v.for_each([&](TypeParam value) {
      largest = std::max(largest, std::abs(static_cast<double>(static_cast<float>(value))));
    });
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const bool is_sum = i < 64 * features;
      const double z = expected[64 * features + (is_sum ? i / 64 : i % features)];
      const double rounded = 1.2 * rounding<TypeParam>() * z * (is_sum ? largest : 1);
      EXPECT_NEAR(problem.state[i], expected[i], i < 65 * features ? rounded : 4e-6) << i;
    }
  });
}

TYPED_TEST(LinearAttentionTensorCores, NanReachesWhatDependsOnItAndNothingElse) {
  this->for_each_map(kAllFeatures, [](Feature feature) {
    Problem<TypeParam> problem(shape_of(feature, 4, 64, 64), 1, 20);
    problem.q.at(0, 2, 63) = TokenRows<TypeParam>::nan();          // row 2 of head 0
    problem.k.at(0, 5, 64 + 3) = TokenRows<TypeParam>::nan();      // all of head 1
    problem.v.at(0, 6, 3 * 64 - 1) = TokenRows<TypeParam>::nan();  // the last column of head 2
    problem.run();
    for (std::int64_t t = 0; t < 20; ++t)
      for (std::int64_t c = 0; c < 4 * 64; ++c)
        ASSERT_EQ(std::isnan(static_cast<float>(problem.y.at(0, t, c))),
                  c < 64 ? t == 2 : c < 2 * 64 || c == 3 * 64 - 1)
            << "row " << t << ", column " << c;
  });
}

TYPED_TEST(LinearAttentionTensorCores, AnImageIsTheSameAloneAndAmongOthersAndAgain) {
  for (const std::int64_t tokens : {90, 460}) {  // in one part and in two
    const la::Shape shape = shape_of(Feature::exp_pair, 1, 64, 64);
    Problem<TypeParam> both(shape, 2, tokens);
    both.run();
    Problem<TypeParam> again(shape, 2, tokens);
    again.run();
    for (std::int64_t b = 0; b < 2; ++b) {
      Problem<TypeParam> alone(shape, 1, tokens);
      alone.take(both, b);
      alone.run();
      ASSERT_TRUE(same_bits(both.y.values(b, 1), alone.y.values(0, 1)));
      ASSERT_TRUE(same_bits(both.y.values(b, 1), again.y.values(b, 1)));
    }
  }
}

/// Blocks of several tiles, the last of which has no rows, against blocks of one.
TEST_F(LinearAttentionTensorCoresParts, RowsDoNotDependOnTheBlockTheyAreIn) {
  constexpr std::int64_t kImages = 66;
  constexpr std::int64_t kTokens = 130;
  ASSERT_EQ(cuda::tiles_a_block(kImages, 4, kTokens), 2);
  ASSERT_EQ(cuda::tiles_a_block(1, 4, kTokens), 1);
  for (const Feature feature : {Feature::exp_pair, Feature::softmax_pair}) {
    SCOPED_TRACE(name_of(feature));
    Problem<BFloat16> together(shape_of(feature, 4, 64, 64), kImages, kTokens);
    together.run();
    for (const std::int64_t b : {std::int64_t{0}, kImages - 1}) {
      Problem<BFloat16> alone(shape_of(feature, 4, 64, 64), 1, kTokens);
      alone.take(together, b);
      alone.run();
      ASSERT_TRUE(same_bits(alone.y.values(0, 1), together.y.values(b, 1)));
    }
  }
}

TEST(LinearAttentionServes, HeadsMapsAndWeightsThatKernelsKnow) {
  const cuda::Extent extent{1, 4, 4, 0, 1, 1};
  la::Shape shape = shape_of(Feature::exp_pair, 12, 64, 64);
  EXPECT_FALSE(cuda::serves<float>(shape, extent));
  EXPECT_TRUE(cuda::serves<BFloat16>(shape, extent));
  EXPECT_TRUE(cuda::serves<Float16>(shape, extent));
  EXPECT_TRUE(cuda::serves<BFloat16>(shape_of(Feature::unit, 1, 64, 64), extent));
  EXPECT_FALSE(cuda::serves<Float16>(shape_of(Feature::unit, 1, 64, 64), extent));
  EXPECT_FALSE(cuda::serves<BFloat16>(shape, {1, 4, 4, 0, 1, -1}));
  shape.head_dim = 32;
  EXPECT_FALSE(cuda::serves<BFloat16>(shape, extent));
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
  refused([](auto& p) { p.extent.queries = 5; });
  refused([](auto& p) { p.extent.tokens = 1000; });  // several parts: their sums wait somewhere
}

}  // namespace linear_attention_cuda_test
}  // namespace hydrascope::kernels::test
