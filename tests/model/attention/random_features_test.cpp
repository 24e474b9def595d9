// Random features: cases 27 and 28 of the mathematical reference. Seeds are fixed, so the
// statistics are numbers that either hold or do not.
#include "model/attention/linear/random_projection.h"
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace hydrascope::testing {
namespace {

using model::TokenGrid;

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
