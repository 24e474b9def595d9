// Linear attention and Hydra beyond the sizes of numbers at which twins are compared: clamped denominators,
// tokens below eps, exponents beyond a type. Cases 17 and 23 of the mathematical reference.
#include "model/attention/linear/feature_map.h"
#include "model/attention/linear/linear_attention.h"
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::testing {
namespace linear_identities_test {

using model::FeatureMapPtr;
using model::Kernels;
using model::Normaliser;
using model::Side;
using model::TokenGrid;
using model::TokenSpan;
using torch::autograd::grad;

const HeadShape kShape{2, 4};
const TokenGrid kGrid{1, 4, 6};

/// Feature maps that no mechanism has.
class LocalFeatureMap : public model::FeatureMap {
 public:
  using Function = std::function<at::Tensor(const at::Tensor& x, Side side, const TokenSpan& span)>;
  LocalFeatureMap(Values values, Function function)
      : values_(values), function_(std::move(function)) {}

  [[nodiscard]] Values values() const override { return values_; }
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x, Side side,
                                      const TokenSpan& span) const override {
    return function_(x, side, span);
  }

 private:
  Values values_;
  Function function_;
};

/// The same function of queries and keys.
FeatureMapPtr features(std::function<at::Tensor(const at::Tensor&)> phi) {
  return c10::make_intrusive<LocalFeatureMap>(
      model::FeatureMap::Values::features,
      [phi = std::move(phi)](const at::Tensor& x, Side, const TokenSpan&) { return phi(x); });
}

/// Exponents U of queries and W of keys.
FeatureMapPtr logarithms(LocalFeatureMap::Function function) {
  return c10::make_intrusive<LocalFeatureMap>(model::FeatureMap::Values::logarithms,
                                              std::move(function));
}

Tokens tokens_of(std::uint64_t seed, const TokenGrid& grid = kGrid, std::int64_t batch = 1) {
  at::manual_seed(seed);
  return random_tokens(batch, grid.num_tokens(), kShape, at::kDouble);
}

/// Signed features, whose sums are moved away from 0 with their sign; there m is a constant.
TEST(LinearIdentitiesTest, AttentionCase17GradientWithAClampedDenominator) {
  const TokenGrid grid{1, 5, 6};
  const Tokens tokens = tokens_of(6, grid, 2).leaves();
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
  const FeatureMapPtr map = features([](const at::Tensor& x) { return x.sin(); });
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

/// Norms above, below and far below an eps of one half.
Tokens with_small_tokens() {
  Tokens tokens = tokens_of(2, kGrid, 2);
  for (const at::Tensor& x : {tokens.q, tokens.k}) {
    x.select(2, 3).mul_(1e-2);
    x.select(2, 5).mul_(1e-5);
  }
  return tokens.leaves();
}

TEST(LinearIdentitiesTest, AttentionCase17EpsPoliciesAndTokensBelowEps) {
  for (const char* const kernel : {"cosine", "l1"}) {
    for (const char* const policy : {"max", "rsqrt", "add"}) {
      SCOPED_TRACE(std::string(kernel) + ", " + policy);
      const model::AttentionSpec spec = spec_of(
          "hydra", {{"phi_q", kernel}, {"phi_k", kernel}, {"eps_policy", policy}, {"eps", "0.5"}});
      const Tokens tokens = with_small_tokens();
      const MixerUnderTest mixer = plain_mixer(spec, kGrid, kShape);
      const auto phi = [&](const at::Tensor& x) {
        const at::Tensor token = model::merge_heads(x);
        const at::Tensor r = std::string(kernel) == "l1" ? token.abs().sum(-1, true)
                                                         : (token * token).sum(-1, true).sqrt();
        const std::string name = policy;
        return token / (name == "max"     ? at::clamp_min(r, 0.5)
                        : name == "rsqrt" ? (r * r + 0.25).sqrt()
                                          : r + 0.5);
      };
      const at::Tensor c = (phi(tokens.k) * model::merge_heads(tokens.v)).sum(1, true);
      const at::Tensor expected = phi(tokens.q) * c;
      const at::Tensor g = at::randn_like(expected);
      const auto slopes = grad({expected}, {tokens.q, tokens.k, tokens.v}, {g});
      for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
        const at::Tensor y = mixer.mix(tokens, kGrid, kernels);
        EXPECT_TRUE(all_near(y, expected, 1e-10));
        const auto found = grad({y}, {tokens.q, tokens.k, tokens.v}, {g});
        for (std::size_t i = 0; i < 3; ++i) {
          at::Tensor slope = slopes[i];
          if (i < 2) {  // a token below eps counts as constant
            for (const std::int64_t small : {3, 5}) slope.select(2, small).zero_();
          }
          EXPECT_TRUE(all_near(found[i], slope, 1e-10)) << "qkv"[i];
        }
        EXPECT_GT(found[0].select(2, 4).abs().min().item<double>(), 0);
      }
    }
  }
}

at::Tensor both_signs(const at::Tensor& u) { return at::cat({u, -u}, -1); }

/// log sum_f exp(a_if + b_jf): logarithms of the weights, (..., N, N).
at::Tensor log_weights(const at::Tensor& a, const at::Tensor& b) {
  return at::logsumexp(a.unsqueeze(-2) + b.unsqueeze(-3), -1);
}

FeatureMapPtr hedgehog_exponents() {
  return logarithms([](const at::Tensor& x, Side, const TokenSpan&) { return both_signs(x); });
}

TEST(LinearIdentitiesTest, AttentionCase23DenominatorsLieBetweenOneAndFN) {
  for (const double scale : {0.01, 1.0, 30.0}) {
    Tokens tokens = tokens_of(2);
    tokens.q = (scale * tokens.q).clamp(-65, 65).to(at::kFloat);
    tokens.k = (scale * tokens.k).clamp(-65, 65).to(at::kFloat);
    const FeatureMapPtr map = hedgehog_exponents();
    const model::ops::LinearSums formula(map, {}, kGrid);
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

TEST(LinearIdentitiesTest, AttentionCase23LargeExponentsInFloat) {
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

TEST(LinearIdentitiesTest, AttentionCase23ARunningMaximumGivesTheSameSums) {
  const TokenGrid grid{1, 100, 100};  // more than a chunk of tokens
  Tokens tokens = tokens_of(5, grid);
  tokens.k = tokens.k * at::linspace(0.1, 30, grid.num_tokens()).view({1, 1, -1, 1});  // it rises
  const FeatureMapPtr map = hedgehog_exponents();
  EXPECT_TRUE(all_near(linear_attention(map, tokens.q, tokens.k, tokens.v, grid, {}),
                       linear_attention_reference(map, tokens.q, tokens.k, tokens.v, grid, {}),
                       1e-10));
}

// ---- several chunks of tokens: features wide enough that a chunk is 64 tokens

constexpr TokenGrid kChunks{2, 11, 14};  // 156 tokens: two chunks and a part
constexpr HeadShape kWideHeads{2, 32};

std::vector<model::AttentionSpec> wide_maps() {
  return {{"taylor2", {}},
          {"hedgehog", {{"width", "1024"}}},
          {"hedgehog", {{"width", "1024"}, {"share_qk", "on"}, {"variant", "softmax1"}}},
          {"t2r", {{"width", "1024"}, {"share_qk", "on"}}},
          {"performer", {{"features", "1024"}}},
          {"rfa", {{"features", "1024"}}}};
}

TEST(ChunkTest, OutputsGradientsAndRowsAreThoseOfTheWholeSequence) {
  for (const model::AttentionSpec& spec : wide_maps()) {
    SCOPED_TRACE(describe(spec));
    at::manual_seed(5);
    const MixerUnderTest mixer(spec, kChunks, kWideHeads);
    mixer.make_exact();
    const Tokens tokens = random_tokens(1, kChunks.num_tokens(), kWideHeads, at::kDouble).leaves();
    std::vector<at::Tensor> inputs{tokens.q, tokens.k, tokens.v};
    for (const at::Tensor& parameter : mixer.owner().parameters()) inputs.push_back(parameter);
    const at::Tensor direction = at::randn({1, kChunks.num_tokens(), 64}, at::kDouble);
    const auto gradients = [&](model::Kernels kernels) {
      return torch::autograd::grad({(mixer.mix(tokens, kChunks, kernels) * direction).sum()},
                                   inputs);
    };
    EXPECT_LT(relative_error(mixer.mix(tokens, kChunks), mixer.twin(tokens, kChunks)), 1e-10);
    const auto fused = gradients(model::Kernels::fused);
    const auto reference = gradients(model::Kernels::reference);
    ASSERT_EQ(fused.size(), reference.size());
    for (std::size_t i = 0; i < fused.size(); ++i)
      EXPECT_LT(relative_error(fused[i], reference[i]), 1e-9) << "input " << i;
    const at::Tensor rows = mixer.map(tokens, kChunks);
    const at::Tensor y = model::merge_heads(rows.matmul(tokens.v));
    EXPECT_LT(relative_error(y, mixer.mix(tokens, kChunks)), 1e-10);
  }
}

TEST(ChunkTest, SecondDerivativesAreRefusedNotWrong) {
  for (const char* name : {"hydra", "elu", "taylor2"}) {
    const MixerUnderTest mixer({name, {}}, kChunks, kWideHeads);
    const Tokens tokens = random_tokens(1, kChunks.num_tokens(), kWideHeads).leaves();
    const auto second_derivative = [&] {
      const auto first = grad({mixer.mix(tokens, kChunks).sum()}, {tokens.q}, {},
                              /*retain_graph=*/true, /*create_graph=*/true);
      return grad({first[0].sum()}, {tokens.q});
    };
    EXPECT_ANY_THROW(second_derivative()) << name;
  }
}

}  // namespace linear_identities_test
}  // namespace hydrascope::testing
