// Random features: cases 27 and 28 of the mathematical reference. Seeds are fixed, so the
// statistics are numbers that either hold or do not.
#include "model/attention/linear/linear_attention.h"
#include "model/attention/linear/random_projection.h"
#include "tests/model/attention/local_feature_map.h"
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace hydrascope::testing {
namespace {

using model::FeatureMapPtr;
using model::Side;
using model::TokenGrid;
using model::TokenSpan;

constexpr std::int64_t kDim = 8;
constexpr std::int64_t kRows = 64;

struct Pair {
  at::Tensor x, y;  // (d)
};

/// With |x + y| of 1 and 1.4: beyond 2 the estimates have tails that no mean of 1000 sees.
std::vector<Pair> pairs() {
  at::manual_seed(1);
  std::vector<Pair> list;
  for (const double length : {1.0, 1.4}) {
    const at::Tensor x = at::randn({kDim}, at::kDouble);
    const at::Tensor y = at::randn({kDim}, at::kDouble);
    const at::Tensor scale = length / (x + y).norm();
    list.push_back({scale * x, scale * y});
  }
  return list;
}

/// One estimate of exp(x.y) for each (..., M, d) set of directions.
at::Tensor positive_estimates(const at::Tensor& w, const Pair& pair) {
  const at::Tensor norms = ((pair.x * pair.x).sum() + (pair.y * pair.y).sum()) / 2;
  return (w.matmul(pair.x + pair.y) - norms).exp().mean(-1);
}

at::Tensor hyperbolic_estimates(const at::Tensor& w, const Pair& pair) {
  return (positive_estimates(w, pair) + positive_estimates(-w, pair)) / 2;
}

/// Distance of the mean from `truth` in standard errors of the mean.
double deviation(const at::Tensor& estimates, double truth) {
  const double error =
      estimates.std().item<double>() / std::sqrt(static_cast<double>(estimates.numel()));
  return (estimates.mean().item<double>() - truth) / error;
}

at::Tensor many_projections(std::int64_t draws) {
  std::vector<at::Tensor> list;
  for (std::int64_t seed = 0; seed < draws; ++seed) {
    list.push_back(model::random_projection(kRows, kDim, static_cast<std::uint64_t>(seed)));
  }
  return at::stack(list).to(at::kDouble);
}

TEST(RandomFeaturesTest, AttentionCase27EstimatesAreUnbiased) {
  const c10::InferenceMode inference;
  const at::Tensor projections = many_projections(1000);
  for (const Pair& pair : pairs()) {
    const double truth = pair.x.dot(pair.y).exp().item<double>();
    EXPECT_LT(std::abs(deviation(positive_estimates(projections, pair), truth)), 4);
    EXPECT_LT(std::abs(deviation(hyperbolic_estimates(projections, pair), truth)), 4);
  }
}

/// The check above would notice: the Q of a QR is not Haar distributed as it comes.
TEST(RandomFeaturesTest, AttentionCase27WithoutTheSignsOfRTheyAreBiased) {
  const c10::InferenceMode inference;
  at::manual_seed(2);
  constexpr std::int64_t kDraws = 3000;
  const at::Tensor gaussian = at::randn({kDraws, kRows / kDim, kDim, kDim}, at::kDouble);
  const at::Tensor q = std::get<0>(at::linalg_qr(gaussian));
  const at::Tensor lengths = at::randn_like(gaussian).norm(2, -1, true);
  const at::Tensor rows = (q.mT() * lengths).reshape({kDraws, kRows, kDim});
  double worst = 0;
  for (const Pair& pair : pairs()) {
    const double truth = pair.x.dot(pair.y).exp().item<double>();
    worst = std::max(worst, std::abs(deviation(positive_estimates(rows, pair), truth)));
  }
  EXPECT_GT(worst, 4);
}

TEST(RandomFeaturesTest, AttentionCase27HyperbolicFeaturesVaryLess) {
  const c10::InferenceMode inference;
  at::manual_seed(6);
  const at::Tensor projections = at::randn({300, kRows, kDim}, at::kDouble);
  for (const Pair& pair : pairs()) {
    EXPECT_LT(hyperbolic_estimates(projections, pair).std().item<double>(),
              positive_estimates(projections, pair).std().item<double>());
  }
}

TEST(RandomFeaturesTest, AttentionCase27RowsOfABlockAreOrthogonal) {
  const c10::InferenceMode inference;
  // Two whole blocks and a part of one; stored in float32, hence 1e-6.
  const at::Tensor w = model::random_projection(2 * kDim + 3, kDim, 5).to(at::kDouble);
  EXPECT_EQ(w.sizes(), (at::IntArrayRef{2 * kDim + 3, kDim}));
  for (const at::Tensor& block : w.split(kDim)) {
    const at::Tensor unit = block / block.norm(2, -1, true);
    EXPECT_TRUE(all_near(unit.matmul(unit.t()), at::eye(unit.size(0)), 1e-6));
  }
  // Lengths of Gaussian rows, not a constant: chi with d degrees of freedom.
  const at::Tensor lengths = model::random_projection(4096, kDim, 6).to(at::kDouble).norm(2, -1);
  EXPECT_NEAR(lengths.pow(2).mean().item<double>(), kDim, 0.3);
  EXPECT_NEAR(lengths.pow(2).std().item<double>(), std::sqrt(2.0 * kDim), 0.3);
}

TEST(RandomFeaturesTest, AttentionCase27SeedsDecideAndLayersDiffer) {
  const auto draw = [](std::uint64_t seed) { return model::random_projection(kRows, kDim, seed); };
  EXPECT_TRUE(at::equal(draw(3), draw(3)));
  EXPECT_FALSE(at::equal(draw(3), draw(4)));
  EXPECT_NE(model::layer_seed(0, 0), model::layer_seed(0, 1));
  EXPECT_NE(model::layer_seed(0, 1), model::layer_seed(1, 0));
}

TEST(RandomFeaturesTest, AttentionCase27TheQueriesNormCancelsTheKeysDoesNot) {
  at::manual_seed(3);
  const TokenGrid grid{1, 3, 4};
  const Tokens tokens = random_tokens(1, grid.num_tokens(), {2, kDim}, at::kDouble);
  const at::Tensor w = model::random_projection(kRows, kDim, 7).to(at::kDouble);
  const auto map_with = [&](bool norm_of_queries, bool norm_of_keys) {
    const FeatureMapPtr map =
        logarithms([=](const at::Tensor& tensor, Side side, const TokenSpan&) {
          const at::Tensor x = tensor * std::pow(static_cast<double>(kDim), -0.25);
          const at::Tensor exponents = x.matmul(w.t());
          const bool with_norm = side == Side::query ? norm_of_queries : norm_of_keys;
          return with_norm ? at::Tensor(exponents - (x * x).sum(-1, true) / 2) : exponents;
        });
    return linear_attention_rows(map, tokens.q, tokens.k, grid, {}, 0, grid.num_tokens());
  };
  const at::Tensor full = map_with(true, true);
  EXPECT_TRUE(all_near(map_with(false, true), full, 1e-12));
  EXPECT_GT((map_with(true, false) - full).abs().max().item<double>(), 1e-3);
  const MixerUnderTest performer =
      plain_mixer(spec_of("performer", {{"variant", "pos"}, {"features", "64"}}), grid, {2, kDim});
  performer.set("feature_map.projection", w);
  EXPECT_TRUE(all_near(performer.map(tokens, grid), full, 1e-12));
}

TEST(RandomFeaturesTest, AttentionCase27ManyFeaturesApproachSoftmax) {
  const c10::InferenceMode inference;
  at::manual_seed(4);
  const TokenGrid grid{1, 3, 4};
  Tokens tokens = random_tokens(1, grid.num_tokens(), {2, kDim}, at::kDouble);
  tokens.q = 0.5 * tokens.q;
  tokens.k = 0.5 * tokens.k;
  const at::Tensor softmax = plain_mixer(spec_of("softmax"), grid, {2, kDim}).map(tokens, grid);
  const MixerUnderTest performer =
      plain_mixer(spec_of("performer", {{"features", "8192"}}), grid, {2, kDim});
  EXPECT_LT(relative_l2(performer.map(tokens, grid), softmax), 0.05);
}

TEST(RandomFeaturesTest, AttentionCase28RfaApproachesItsKernel) {
  const c10::InferenceMode inference;
  at::manual_seed(5);
  const TokenGrid grid{1, 3, 4};
  const HeadShape shape{2, kDim};
  const Tokens tokens = random_tokens(1, grid.num_tokens(), shape, at::kDouble);
  const auto unit = [](const at::Tensor& x) { return at::Tensor(x / x.norm(2, -1, true)); };
  const at::Tensor cosines = unit(tokens.q).matmul(unit(tokens.k).mT());
  for (const char* const sigma : {"0.8", "2"}) {
    const MixerUnderTest rfa =
        plain_mixer(spec_of("rfa", {{"features", "8192"}, {"sigma", sigma}}), grid, shape);
    const double variance = std::stod(sigma) * std::stod(sigma);
    EXPECT_LT(relative_l2(rfa.map(tokens, grid), at::softmax(cosines / variance, -1)), 0.1)
        << sigma;
  }
}

}  // namespace
}  // namespace hydrascope::testing
