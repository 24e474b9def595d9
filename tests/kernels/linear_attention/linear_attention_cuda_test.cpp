// Linear attention's CUDA kernels in float32 arithmetic against the float64 twins.
#include "kernels/linear_attention/linear_attention_cuda.h"

#include "kernels/error.h"
#include "tests/kernels/linear_attention/linear_attention_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::kernels::test {
namespace linear_attention_cuda_test {

using LinearAttentionCuda = DeviceTest;

/// Under every schedule.
void check(Problem<float> problem, const char* what, bool backward = true) {
  SCOPED_TRACE(std::string(what) + ", " + name_of(problem.shape.rule.feature) + ", " +
               std::to_string(problem.extent.tokens) + " tokens, w " +
               std::to_string(problem.shape.width) + ", d " +
               std::to_string(problem.shape.head_dim));
  // A few roundings of the result, and the roundings of exponents, which are sums of three terms, each
  // rounded to 2^-24 of itself; of gradients twice that: y was rounded before it was used.
  const Bounds bounds{4e-6, 8e-6, 4e-7, 8e-7, 0, 1e-30};
  const Expected<float> expected(problem, backward, problem.extent.queries / 12 + 1);
  for_each_schedule([&] {
    problem.run(backward);
    ASSERT_NO_FATAL_FAILURE(expected.compare(problem, bounds));
  });
}

TEST_F(LinearAttentionCuda, EqualsTheTwinForEveryMap) {
  for (const Feature feature : kAllFeatures)
    check({shape_of(feature, 2, 24, 40), 1, 33, Fill::normal}, "every map");
}

TEST_F(LinearAttentionCuda, EqualsTheTwinForHeadsThatNoTileDivides) {
  for (const auto& [width, head_dim] :
       {std::pair<std::int64_t, std::int64_t>{4, 4}, {8, 48}, {48, 8}, {80, 72}})
    for (const Feature feature : {Feature::relu, Feature::exp_pair, Feature::softmax_pair})
      check({shape_of(feature, 1, width, head_dim), 1, 7, Fill::normal}, "heads");
}

TEST_F(LinearAttentionCuda, EqualsTheTwinForRowsLongerThanATile) {
  for (const Feature feature :
       {Feature::unit, Feature::softmax_pair, Feature::softmax_both, Feature::exp_centred})
    check({shape_of(feature, 1, 128, 8), 1, 3, Fill::normal}, "long rows");
  // All elements of a row share its maximum, beyond the tile, too.
  check({shape_of(Feature::exp_centred, 1, 72, 8), 1, 3, Fill::ones}, "equal maxima");
}

TEST_F(LinearAttentionCuda, RowsShorterThanTheLeastNormAreConstants) {
  la::Shape shape = shape_of(Feature::unit, 1, 12, 8);
  shape.rule.unit_eps = 3;  // of normal rows about half are shorter
  check({shape, 1, 20, Fill::normal}, "short rows");
}

TEST_F(LinearAttentionCuda, EqualsTheTwinForAnyNumberOfTokens) {
  for (const std::int64_t tokens : {1, 2, 31, 32, 196, 197, 198})
    check({shape_of(Feature::exp_pair, 1, 8, 8), 1, tokens, Fill::normal}, "tokens",
          /*backward=*/tokens % 2 != 0 || tokens < 196);
  // Several runs of tokens.
  for (const Feature feature : {Feature::unit, Feature::relu, Feature::softmax_pair})
    check({shape_of(feature, 2, 4, 8), 2, 577, Fill::normal}, "runs",
          /*backward=*/false);
}

TEST_F(LinearAttentionCuda, GradientsOfSeveralRunsEqualTheTwin) {
  check({shape_of(Feature::exp_pair, 1, 4, 4), 1, 300, Fill::normal}, "runs");
}

TEST_F(LinearAttentionCuda, EqualsTheTwinOnEveryKindOfInput) {
  for (const Feature feature : kAllFeatures)
    for (const Fill how : kAllFills) {
      SCOPED_TRACE("fill " + std::to_string(static_cast<int>(how)));
      check({shape_of(feature, 1, 12, 20), 1, 11, how}, "inputs");
    }
}

TEST_F(LinearAttentionCuda, TokensWeighTheirKeys) {
  for (const Feature feature : {Feature::unit, Feature::relu, Feature::exp_pair}) {
    Problem<float> problem(shape_of(feature, 1, 16, 12), 2, 45, Fill::normal);
    problem.extent.weights.num_prefix = 14;
    problem.extent.weights.prefix = 0.75F;
    problem.extent.weights.patch = 0.2F;
    check(std::move(problem), "weights");
  }
}

TEST_F(LinearAttentionCuda, OnlyLeadingTokensMayHaveQueries) {
  for (const Feature feature : {Feature::softmax_both, Feature::relu}) {
    check({shape_of(feature, 2, 16, 12), 2, 70, Fill::normal, 1}, "one query");
    check({shape_of(feature, 1, 16, 12), 1, 70, Fill::normal, 66}, "queries");
  }
}

TEST_F(LinearAttentionCuda, WithoutANormaliserNothingIsDivided) {
  la::Shape shape = shape_of(Feature::relu, 1, 16, 12);
  shape.rule.normaliser.rule = Normaliser::Rule::none;
  check({shape, 1, 9, Fill::normal}, "none");
  shape.rule.normaliser.rule = Normaliser::Rule::add_eps;
  shape.rule.normaliser.eps = 40;
  check({shape, 1, 9, Fill::normal}, "a large eps");
  shape.rule.feature = Feature::unit;
  check({shape, 1, 9, Fill::normal}, "a large eps");
}

TEST_F(LinearAttentionCuda, RisingMaximaKeepWhatWasSummed) {
  for (const std::int64_t tokens : {90, 300}) {
    Problem<float> problem(shape_of(Feature::exp_pair, 1, 8, 8), 1, tokens, Fill::normal);
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t i = 0; i < 8; ++i) {
        problem.k.at(0, t, i) += 0.05F * static_cast<float>(i % 2 == 0 ? t : -t);
      }
    check(std::move(problem), "rising maxima", /*backward=*/tokens == 90);
  }
}

TEST_F(LinearAttentionCuda, TheStateIsWhatTheHeaderSays) {
  for (const Feature feature : {Feature::exp_pair, Feature::exp_centred, Feature::relu})
    for (const std::int64_t tokens : {40, 300}) {
      Problem<float> problem(shape_of(feature, 2, 4, 4), 2, tokens);
      problem.run(false);
      expect_state(problem, 5e-6);
    }
}

TEST_F(LinearAttentionCuda, ResultsDependNeitherOnTheBatchNorOnTheSchedule) {
  const la::Shape shape = shape_of(Feature::softmax_pair, 2, 12, 8);
  Problem<float> both(shape, 2, 270);
  both.run(true);
  const std::vector<float> once[] = {both.results(0), both.results(1)};
  for_each_schedule([&] {
    both.run(true);
    for (std::int64_t b = 0; b < 2; ++b) ASSERT_TRUE(same_bits(both.results(b), once[b]));
  });
  for (std::int64_t b = 0; b < 2; ++b) {
    Problem<float> single(shape, 1, 270, Fill::zeros);
    single.take(both, b);
    single.run(true);
    EXPECT_TRUE(same_bits(single.results(0), once[b]));
  }
}

TEST_F(LinearAttentionCuda, NanReachesWhatDependsOnIt) {
  for (const Feature feature : kAllFeatures) {
    SCOPED_TRACE(name_of(feature));
    ASSERT_NO_FATAL_FAILURE(
        expect_reach_of_nan(Problem<float>(shape_of(feature, 4, 8, 12), 2, 34)));
  }
}

TEST_F(LinearAttentionCuda, WithoutQueriesNothingIsLaunched) {
  const la::Shape shape = shape_of(Feature::exp_pair, 2, 8, 8);
  cuda::ForwardParams<float> forward{};
  cuda::BackwardParams<float> backward{};
  forward.shape = backward.shape = shape;
  for (const cuda::Extent extent :
       {cuda::Extent{0, 5, 5, 0, 1, 1}, cuda::Extent{3, 0, 0, 0, 1, 1}}) {
    forward.extent = backward.extent = extent;
    cuda::forward(forward, nullptr);
    cuda::backward(backward, nullptr);
  }
}

TEST_F(LinearAttentionCuda, MoreQueriesThanTokensAreRefused) {
  cuda::ForwardParams<float> params{};
  params.shape = shape_of(Feature::exp_pair, 2, 8, 8);
  params.extent = {1, 5, 6, 0, 1, 1};
  EXPECT_THROW(cuda::forward(params, nullptr), Error);
}

TEST_F(LinearAttentionCuda, AMissingWorkspaceIsRefused) {
  cuda::ForwardParams<float> forward{};
  cuda::BackwardParams<float> backward{};
  forward.shape = backward.shape = shape_of(Feature::exp_pair, 2, 8, 8);
  forward.extent = {1, 1000, 1000, 0, 1, 1};  // several runs: their sums wait somewhere
  backward.extent = {1, 5, 5, 0, 1, 1};
  EXPECT_THROW(cuda::forward(forward, nullptr), Error);
  EXPECT_THROW(cuda::backward(backward, nullptr), Error);
  EXPECT_EQ(cuda::workspace_bytes<float>(backward.shape, backward.extent), 0U);
  EXPECT_GT(cuda::backward_workspace_bytes<float>(backward.shape, backward.extent), 0U);
}

TEST(LinearAttentionCudaGeometry, RunsCoverAllTokens) {
  namespace simt = cuda::simt;
  for (std::int64_t tokens = 1; tokens < 40000; tokens += tokens < 3000 ? 1 : 61) {
    const simt::Split split = simt::split_tokens(tokens);
    ASSERT_EQ(split.tokens % simt::kStep, 0) << tokens;
    ASSERT_LE(split.count, simt::kMaxRuns) << tokens;
    ASSERT_GE(split.count * split.tokens, tokens) << tokens;
    ASSERT_LT((split.count - 1) * split.tokens, tokens) << "an empty run of " << tokens;
  }
  EXPECT_EQ(simt::split_tokens(197).count, 1);
  EXPECT_EQ(simt::split_tokens(8161).count, 32);
}

TEST(LinearAttentionCudaGeometry, ManyImagesAreLegal) {
  namespace simt = cuda::simt;
  const la::Shape shape = shape_of(Feature::exp_pair, 12, 64, 64);
  EXPECT_EQ(device::illegal(simt::state_geometry(shape, 100000, simt::split_tokens(197))), "");
  EXPECT_EQ(device::illegal(cuda::combine_geometry(shape, 100000)), "");
  EXPECT_EQ(device::illegal(simt::read_out_geometry(shape, 100000, 197)), "");
  EXPECT_EQ(device::illegal(simt::row_geometry(shape, 100000, 197)), "");
}

}  // namespace linear_attention_cuda_test
}  // namespace hydrascope::kernels::test
