// Identities of linear attention for arbitrary feature maps, of its backward pass and of Taylor-2:
// cases 16, 17 and 26 of the mathematical reference.
#include "model/attention/linear/linear_attention.h"
#include "tests/model/attention/local_feature_map.h"
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::testing {
namespace linear_identities_test {

using model::FeatureMapPtr;
using model::Normaliser;
using model::TokenGrid;
using torch::autograd::grad;

const HeadShape kShape{2, 5};
/// More tokens than a chunk of features holds.
const TokenGrid kGrid{1, 30, 41};

at::Tensor elu_plus_one(const at::Tensor& x) { return at::elu(x) + 1; }

/// Positive, with zeros, more features than d, fewer than d.
const std::vector<std::pair<std::string, FeatureMapPtr>>& maps() {
  static const std::vector<std::pair<std::string, FeatureMapPtr>> list{
      {"elu + 1", features(elu_plus_one)},
      {"relu", features([](const at::Tensor& x) { return at::relu(x); })},
      {"squares", features([](const at::Tensor& x) {
         return at::cat({x * x, x * x * x * x}, -1);
       })},
      {"one", features([](const at::Tensor& x) { return at::sigmoid(x.narrow(-1, 0, 1)); })}};
  return list;
}

at::Tensor features_of(const FeatureMapPtr& map, const at::Tensor& x, model::Side side) {
  return (*map)(x, side, {0, kGrid});
}

TEST(LinearIdentitiesTest, AttentionCase16LinearOrderIsTheQuadraticForm) {
  for (const auto& [name, map] : maps()) {
    for (const double eps : {0.0, 1e-6, 3.0}) {
      SCOPED_TRACE(name + ", eps " + std::to_string(eps));
      at::manual_seed(1);
      Tokens tokens = random_tokens(2, kGrid.num_tokens(), kShape, at::kDouble);
      tokens.q.select(3, 0).abs_();  // no query without a feature: 0 / 0 at eps 0
      const Normaliser normaliser{Normaliser::Rule::add_eps, static_cast<float>(eps)};
      const at::Tensor weights = features_of(map, tokens.q, model::Side::query)
                                     .matmul(features_of(map, tokens.k, model::Side::key).mT());
      const at::Tensor m = weights.sum(-1, true) + eps;
      const at::Tensor expected = (weights / m).matmul(tokens.v);
      const at::Tensor y = linear_attention(map, tokens.q, tokens.k, tokens.v, kGrid, normaliser);
      EXPECT_TRUE(all_near(y, expected, 1e-10));
      EXPECT_TRUE(
          all_near(linear_attention_reference(map, tokens.q, tokens.k, tokens.v, kGrid, normaliser),
                   expected, 1e-10));
      const at::Tensor rows =
          linear_attention_rows(map, tokens.q, tokens.k, kGrid, normaliser, 0, 50);
      EXPECT_TRUE(all_near(rows.sum(-1), ((m - eps) / m).squeeze(-1).narrow(2, 0, 50), 1e-10));
    }
  }
}

/// Signed features, whose sums are moved away from 0 with their sign; there m is a constant.
TEST(LinearIdentitiesTest, AttentionCase17GradientWithAClampedDenominator) {
  at::manual_seed(6);
  const TokenGrid grid{1, 5, 6};
  const Tokens tokens = random_tokens(2, grid.num_tokens(), kShape, at::kDouble).leaves();
  constexpr double kEps = 5;
  const at::Tensor weights = tokens.q.sin().matmul(tokens.k.sin().mT());
  const auto divided = [&](const at::Tensor& w) {
    const at::Tensor sum = w.sum(-1, true);
    const at::Tensor limit = at::where(sum < 0, -kEps, kEps).to(at::kDouble);
    return at::Tensor(w / at::where(sum.abs() < kEps, limit, sum)).matmul(tokens.v);
  };
  const at::Tensor clamped = (weights.sum(-1).abs() < kEps).to(at::kDouble).mean();
  ASSERT_GT(clamped.item<double>(), 0.1);
  ASSERT_LT(clamped.item<double>(), 0.9);
  const model::FeatureMapPtr map = features([](const at::Tensor& x) { return x.sin(); });
  const Normaliser normaliser{Normaliser::Rule::signed_clamp, kEps};
  const auto expect_gradients = [&](const at::Tensor& y, const at::Tensor& expected) {
    EXPECT_TRUE(all_near(y, expected, 1e-10));
    const at::Tensor g = at::randn_like(expected);
    const std::vector<at::Tensor> inputs{tokens.q, tokens.k, tokens.v};
    const auto slopes = grad({expected}, inputs, {g}, /*retain_graph=*/true);
    const auto found = grad({y}, inputs, {g}, /*retain_graph=*/true);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(all_near(found[i], slopes[i], 1e-10)) << "qkv"[i];
  };
  expect_gradients(linear_attention(map, tokens.q, tokens.k, tokens.v, grid, normaliser),
                   divided(weights));
  expect_gradients(linear_attention_reference(map, tokens.q, tokens.k, tokens.v, grid, normaliser),
                   divided(weights));
}

TEST(LinearIdentitiesTest, AttentionCase26Taylor2) {
  at::manual_seed(5);
  const TokenGrid grid{1, 4, 5};
  const Tokens tokens = random_tokens(1, grid.num_tokens(), kShape, at::kDouble);
  const at::Tensor s =
      tokens.q.matmul(tokens.k.mT()) / std::sqrt(static_cast<double>(kShape.head_dim));
  const at::Tensor weights = 1 + s + s * s / 2;
  const MixerUnderTest mixer = plain_mixer(spec_of("taylor2"), grid, kShape);
  // A = w / m, so m = w / A: never below N / 2, which is why no epsilon is needed.
  const at::Tensor m = weights / mixer.map(tokens, grid);
  EXPECT_TRUE(all_near(m, weights.sum(-1, true).expand_as(m), 1e-9));
  EXPECT_GE(m.min().item<double>(), static_cast<double>(grid.num_tokens()) / 2);
}

}  // namespace linear_identities_test
}  // namespace hydrascope::testing
