// Identities of Hedgehog's variants, of the stabilisation of exponentials from both sides and of
// distillation: cases 22 to 25 of the mathematical reference.
#include "model/attention/linear/linear_attention.h"
#include "tests/model/attention/local_feature_map.h"
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <vector>

namespace hydrascope::testing {
namespace hedgehog_identities_test {

using model::FeatureMapPtr;
using model::Kernels;
using model::Side;
using model::TokenGrid;
using model::TokenSpan;
using torch::autograd::grad;

const HeadShape kShape{2, 4};
const TokenGrid kGrid{1, 4, 6};

Tokens tokens_of(std::uint64_t seed, const TokenGrid& grid = kGrid) {
  at::manual_seed(seed);
  return random_tokens(1, grid.num_tokens(), kShape, at::kDouble);
}

at::Tensor both_signs(const at::Tensor& u) { return at::cat({u, -u}, -1); }

/// log sum_f exp(a_if + b_jf): logarithms of the weights, (..., N, N).
at::Tensor log_weights(const at::Tensor& a, const at::Tensor& b) {
  return at::logsumexp(a.unsqueeze(-2) + b.unsqueeze(-3), -1);
}

/// Hedgehog's exponents with something added to those of queries and keys.
at::Tensor map_with_shifts(const Tokens& tokens,
                           const std::function<at::Tensor(const at::Tensor&)>& of_queries,
                           const std::function<at::Tensor(const at::Tensor&)>& of_keys) {
  const FeatureMapPtr map = logarithms([&](const at::Tensor& x, Side side, const TokenSpan&) {
    const at::Tensor exponents = both_signs(x);
    return exponents + (side == Side::query ? of_queries(exponents) : of_keys(exponents));
  });
  return linear_attention_rows(map, tokens.q, tokens.k, kGrid, {}, 0, kGrid.num_tokens());
}

class ShiftTest : public ::testing::Test {
 protected:
  static at::Tensor none(const at::Tensor& exponents) { return at::zeros_like(exponents); }
  static at::Tensor maximum_of_token(const at::Tensor& exponents) {
    return -exponents.amax(-1, true).expand_as(exponents);
  }
  static at::Tensor maximum_of_halves(const at::Tensor& exponents) {
    const auto halves = exponents.chunk(2, -1);
    return at::cat({-halves[0].amax(-1, true).expand_as(halves[0]),
                    -halves[1].amax(-1, true).expand_as(halves[1])},
                   -1);
  }
  [[nodiscard]] double change(const at::Tensor& map) const {
    return (map - plain_).abs().max().item<double>();
  }

  Tokens tokens_ = tokens_of(1);
  at::Tensor of_keys_ = both_signs(tokens_.k);             // (1, H, N, F)
  at::Tensor feature_maxima_ = of_keys_.amax(2, true);     // over tokens
  at::Tensor head_maximum_ = of_keys_.amax({2, 3}, true);  // over tokens and features
  at::Tensor plain_ = map_with_shifts(tokens_, none, none);
};

TEST_F(ShiftTest, AttentionCase22LegalShiftsKeepTheMap) {
  const at::Tensor hedgehog = plain_mixer(spec_of("hedgehog"), kGrid, kShape).map(tokens_, kGrid);
  EXPECT_LT(change(hedgehog), 1e-12);
  EXPECT_LT(change(map_with_shifts(tokens_, maximum_of_token, none)), 1e-12);
  EXPECT_LT(change(map_with_shifts(tokens_, none,
                                   [&](const at::Tensor&) { return at::Tensor(-head_maximum_); })),
            1e-12);
  EXPECT_LT(change(map_with_shifts(
                tokens_, [&](const at::Tensor&) { return feature_maxima_; },
                [&](const at::Tensor&) { return at::Tensor(-feature_maxima_); })),
            1e-12);
}

TEST_F(ShiftTest, AttentionCase22IllegalShiftsChangeTheMap) {
  EXPECT_GT(change(map_with_shifts(tokens_, maximum_of_halves, none)), 1e-3);
  EXPECT_GT(change(map_with_shifts(tokens_, none, maximum_of_token)), 1e-3);
  EXPECT_GT(change(map_with_shifts(tokens_, none, maximum_of_halves)), 1e-3);
  EXPECT_GT(change(map_with_shifts(
                tokens_, none, [&](const at::Tensor&) { return at::Tensor(-feature_maxima_); })),
            1e-3);
  const at::Tensor halves = at::cat(
      {at::zeros({kShape.head_dim}, at::kDouble), at::ones({kShape.head_dim}, at::kDouble)});
  EXPECT_GT(change(map_with_shifts(tokens_, none, [&](const at::Tensor&) { return halves; })),
            1e-3);
}

FeatureMapPtr hedgehog_exponents() {
  return logarithms([](const at::Tensor& x, Side, const TokenSpan&) { return both_signs(x); });
}

TEST(HedgehogIdentitiesTest, AttentionCase23DenominatorsLieBetweenOneAndFN) {
  for (const double scale : {0.01, 1.0, 30.0}) {
    Tokens tokens = tokens_of(2);
    tokens.q = (scale * tokens.q).clamp(-65, 65).to(at::kFloat);
    tokens.k = (scale * tokens.k).clamp(-65, 65).to(at::kFloat);
    const FeatureMapPtr map = hedgehog_exponents();
    const model::ops::LinearFormula formula(*map, {}, kGrid, {});
    const at::Tensor keys = formula.values(tokens.k, Side::key, 0);
    const at::Tensor maximum = formula.maximum(keys);
    const at::Tensor z = formula.key_features(keys, maximum, 0).sum(2);
    const at::Tensor a = formula.query_features(formula.values(tokens.q, Side::query, 0), maximum);
    const at::Tensor denominators = (a * z.unsqueeze(2)).sum(-1);
    EXPECT_GE(denominators.min().item<double>(), 1);
    EXPECT_LE(denominators.max().item<double>(),
              static_cast<double>(2 * kShape.head_dim * kGrid.num_tokens()));
  }
}

TEST(HedgehogIdentitiesTest, AttentionCase23LargeExponentsInFloat) {
  Tokens tokens = tokens_of(3);
  tokens.q = (60 * tokens.q).clamp(-130, 130).to(at::kFloat).to(at::kDouble);
  tokens.k = (60 * tokens.k).clamp(-130, 130).to(at::kFloat).to(at::kDouble);
  const at::Tensor weights = log_weights(both_signs(tokens.q), both_signs(tokens.k));
  const at::Tensor expected = model::merge_heads(at::softmax(weights, -1).matmul(tokens.v));
  const MixerUnderTest mixer(spec_of("hedgehog"), kGrid, kShape);
  mixer.set_identity_maps();
  for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
    const at::Tensor y = mixer.mix(tokens.to(at::kFloat), kGrid, kernels);
    EXPECT_TRUE(at::isfinite(y).all().item<bool>());
    EXPECT_LT(relative_error(y, expected), 1e-4);
  }
}

TEST(HedgehogIdentitiesTest, AttentionCase23ARunningMaximumGivesTheSameSums) {
  const TokenGrid grid{1, 100, 100};  // more than a chunk of tokens
  Tokens tokens = tokens_of(5, grid);
  tokens.k = tokens.k * at::linspace(0.1, 30, grid.num_tokens()).view({1, 1, -1, 1});  // it rises
  const FeatureMapPtr map = hedgehog_exponents();
  EXPECT_TRUE(all_near(linear_attention(map, tokens.q, tokens.k, tokens.v, grid, {}),
                       linear_attention_reference(map, tokens.q, tokens.k, tokens.v, grid, {}),
                       1e-10));
}

at::Tensor hedgehog_map(const std::string& variant, const Tokens& tokens) {
  return plain_mixer(spec_of("hedgehog", {{"variant", variant}}), kGrid, kShape).map(tokens, kGrid);
}

TEST(HedgehogIdentitiesTest, AttentionCase24OneSoftmaxReweightsTheKeysOfExp) {
  const Tokens tokens = tokens_of(6);
  const at::Tensor z = (2 * (2 * tokens.k).cosh()).sum(-1).unsqueeze(2);  // (1, H, 1, N)
  const at::Tensor reweighted = hedgehog_map("exp", {2 * tokens.q, 2 * tokens.k, tokens.v}) / z;
  EXPECT_TRUE(
      all_near(hedgehog_map("softmax1", tokens), reweighted / reweighted.sum(-1, true), 1e-12));
}

TEST(HedgehogIdentitiesTest, AttentionCase24WhatLeavesTheVariantsUnchanged) {
  const Tokens tokens = tokens_of(7);
  const at::Tensor per_token = at::randn({1, kShape.num_heads, kGrid.num_tokens(), 1}, at::kDouble);
  EXPECT_TRUE(
      all_near(hedgehog_map("softmax2", {tokens.q + per_token, tokens.k - 3 * per_token, tokens.v}),
               hedgehog_map("softmax2", tokens), 1e-12));
  const at::Tensor per_feature = at::randn({kShape.head_dim}, at::kDouble);
  const at::Tensor exp = hedgehog_map("exp", tokens);
  EXPECT_TRUE(all_near(
      hedgehog_map("exp", {tokens.q + per_feature, tokens.k - per_feature, tokens.v}), exp, 1e-12));
  EXPECT_TRUE(all_near(hedgehog_map("exp", {-tokens.q, -tokens.k, tokens.v}), exp, 1e-12));
  const at::Tensor shared =
      hedgehog_map("exp", {tokens.q + per_feature, tokens.k + per_feature, tokens.v});
  EXPECT_GT((shared - exp).abs().max().item<double>(), 1e-3);
}

TEST(HedgehogIdentitiesTest, AttentionCase24OneFeatureAndTwoSoftmaxesAreUniform) {
  at::manual_seed(8);
  const Tokens tokens = random_tokens(1, kGrid.num_tokens(), {2, 1}, at::kDouble);
  const MixerUnderTest mixer =
      plain_mixer(spec_of("hedgehog", {{"variant", "softmax2"}}), kGrid, {2, 1});
  const at::Tensor map = mixer.map(tokens, kGrid);
  EXPECT_TRUE(
      all_near(map, at::full_like(map, 1 / static_cast<double>(kGrid.num_tokens())), 1e-15));
}

/// Cross entropy of the student's rows against the teacher's, summed.
at::Tensor distillation_loss(const at::Tensor& teacher, const at::Tensor& student) {
  return -(teacher * student.log()).sum();
}

TEST(HedgehogIdentitiesTest, AttentionCase25GradientOfDistillation) {
  const Tokens tokens = tokens_of(9).leaves();
  const at::Tensor teacher =
      plain_mixer(spec_of("softmax"), kGrid, kShape).map(tokens, kGrid).detach();
  const at::Tensor student = hedgehog_map("exp", tokens);
  const auto found = grad({distillation_loss(teacher, student)}, {tokens.q, tokens.k});
  const at::NoGradGuard no_grad;
  const at::Tensor sums = tokens.q.unsqueeze(-2) + tokens.k.unsqueeze(-3);  // (1, H, N, N, d)
  const at::Tensor weights = (2 * sums.cosh()).sum(-1, true);
  const at::Tensor rho = 2 * sums.sinh() / weights;
  const at::Tensor terms = (student - teacher).unsqueeze(-1) * rho;
  EXPECT_TRUE(all_near(found[0], terms.sum(3), 1e-10));
  EXPECT_TRUE(all_near(found[1], terms.sum(2), 1e-10));
}

TEST(HedgehogIdentitiesTest, AttentionCase25APerfectStudentHasTheTeachersEntropy) {
  const Tokens tokens = tokens_of(10).leaves();
  const at::Tensor student = hedgehog_map("exp", tokens);
  const at::Tensor teacher = student.detach();
  const at::Tensor loss = distillation_loss(teacher, student);
  EXPECT_NEAR(loss.item<double>(), -(teacher * teacher.log()).sum().item<double>(), 1e-10);
  for (const at::Tensor& gradient : grad({loss}, {tokens.q, tokens.k}))
    EXPECT_LT(gradient.abs().max().item<double>(), 1e-12);
  const at::Tensor other = hedgehog_map("exp", tokens_of(11));
  const at::Tensor divergence = (teacher * (teacher.log() - other.log())).sum(-1);
  EXPECT_GT(divergence.min().item<double>(), 0);
  EXPECT_NEAR((distillation_loss(teacher, other) - loss).item<double>(),
              divergence.sum().item<double>(), 1e-10);
}

}  // namespace hedgehog_identities_test
}  // namespace hydrascope::testing
