// The causal form of linear attention: case 32 of the mathematical reference.
#include "model/attention/linear_attention.h"
#include "tests/model/attention/local_feature_map.h"
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <string>
#include <vector>

namespace hydrascope::testing {
namespace causal_identities_test {

using model::FeatureMapPtr;
using model::LinearState;
using model::Normaliser;
using model::Side;
using model::TokenGrid;
using model::TokenSpan;
using torch::autograd::grad;

const HeadShape kShape{2, 4};
const TokenGrid kGrid{1, 11, 31};

at::Tensor phi(const at::Tensor& x) { return at::elu(x) + 1; }

FeatureMapPtr plain() { return features(phi); }

FeatureMapPtr exponents() {
  return logarithms([](const at::Tensor& x, Side, const TokenSpan&) {
    return at::cat({x, -x}, -1);
  });
}

Tokens tokens_of(std::uint64_t seed) {
  at::manual_seed(seed);
  return random_tokens(2, kGrid.num_tokens(), kShape, at::kDouble);
}

at::Tensor masked(const at::Tensor& weights, const at::Tensor& v, double eps) {
  const at::Tensor lower = at::tril(weights);
  return (lower / (lower.sum(-1, true) + eps)).matmul(v);
}

at::Tensor causal(const FeatureMapPtr& map, const Tokens& tokens,
                  const Normaliser& normaliser = {}) {
  LinearState state;
  return causal_linear_attention(map, tokens.q, tokens.k, tokens.v, kGrid, normaliser, state);
}

/// In pieces of the given length, the state carried along.
at::Tensor causal_in_pieces(const FeatureMapPtr& map, const Tokens& tokens, std::int64_t length) {
  LinearState state;
  std::vector<at::Tensor> pieces;
  for (std::int64_t first = 0; first < kGrid.num_tokens(); first += length) {
    const std::int64_t count = std::min(length, kGrid.num_tokens() - first);
    pieces.push_back(causal_linear_attention(map, tokens.q.narrow(2, first, count),
                                             tokens.k.narrow(2, first, count),
                                             tokens.v.narrow(2, first, count), kGrid, {}, state));
  }
  EXPECT_EQ(state.num_tokens, kGrid.num_tokens());
  return at::cat(pieces, 2);
}

TEST(CausalIdentitiesTest, AttentionCase32RecurrentIsTheMaskedQuadraticForm) {
  const Tokens tokens = tokens_of(1);
  const at::Tensor weights = phi(tokens.q).matmul(phi(tokens.k).mT());
  for (const double eps : {0.0, 1e-6, 2.0}) {
    EXPECT_TRUE(all_near(causal(plain(), tokens, {Normaliser::Rule::add_eps, eps}),
                         masked(weights, tokens.v, eps), 1e-10));
  }
  const at::Tensor cosh = (2 * (tokens.q.unsqueeze(-2) + tokens.k.unsqueeze(-3)).cosh()).sum(-1);
  EXPECT_TRUE(all_near(causal(exponents(), tokens), masked(cosh, tokens.v, 0), 1e-10));
}

TEST(CausalIdentitiesTest, AttentionCase32PiecesOfAnyLengthAgree) {
  const Tokens tokens = tokens_of(2);
  for (const FeatureMapPtr& map : {plain(), exponents()}) {
    const at::Tensor whole = causal(map, tokens);
    for (const std::int64_t length : {1, 7, 64, 341})
      EXPECT_TRUE(all_near(causal_in_pieces(map, tokens, length), whole, 1e-10)) << length;
  }
}

TEST(CausalIdentitiesTest, AttentionCase32ThePastDoesNotSeeTheFuture) {
  const Tokens tokens = tokens_of(3);
  Tokens changed{tokens.q, tokens.k.clone(), tokens.v.clone()};
  changed.k.narrow(2, 100, 242).normal_();
  changed.v.narrow(2, 100, 242).normal_();
  EXPECT_TRUE(all_near(causal(plain(), changed).narrow(2, 0, 100),
                       causal(plain(), tokens).narrow(2, 0, 100), 1e-12));
}

TEST(CausalIdentitiesTest, AttentionCase32BackwardOfTheScans) {
  const Tokens tokens = tokens_of(4).leaves();
  for (const double eps : {0.0, 0.5}) {
    const at::Tensor weights = phi(tokens.q).matmul(phi(tokens.k).mT());
    const at::Tensor expected = masked(weights, tokens.v, eps);
    const at::Tensor g = at::randn_like(expected);
    const auto slopes = grad({expected}, {tokens.q, tokens.k, tokens.v}, {g});
    const at::Tensor y = causal(plain(), tokens, {Normaliser::Rule::add_eps, eps});
    const auto found = grad({y}, {tokens.q, tokens.k, tokens.v}, {g});
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(all_near(found[i], slopes[i], 1e-9)) << "qkv"[i];
  }
}

TEST(CausalIdentitiesTest, AttentionCase32TheLastTokenSeesEverything) {
  const Tokens tokens = tokens_of(5);
  const std::int64_t last = kGrid.num_tokens() - 1;
  for (const FeatureMapPtr& map : {plain(), exponents()}) {
    EXPECT_TRUE(all_near(
        causal(map, tokens).select(2, last),
        linear_attention(map, tokens.q, tokens.k, tokens.v, kGrid, {}).select(2, last), 1e-10));
  }
}

LinearState state_of(const Tokens& tokens, std::int64_t first, std::int64_t count) {
  LinearState state;
  accumulate(*plain(), tokens.k.narrow(2, first, count), tokens.v.narrow(2, first, count),
             {first, kGrid}, state);
  return state;
}

TEST(CausalIdentitiesTest, AttentionCase32PrefixAndSuffixMakeTheWhole) {
  const Tokens tokens = tokens_of(6);
  const std::int64_t n = kGrid.num_tokens();
  const LinearState whole = state_of(tokens, 0, n);
  for (const std::int64_t t : {std::int64_t{0}, std::int64_t{17}, n - 1}) {
    const LinearState prefix = state_of(tokens, 0, t + 1);
    const LinearState suffix = state_of(tokens, t, n - t);
    const LinearState self = state_of(tokens, t, 1);
    EXPECT_TRUE(all_near(prefix.kv_sum + suffix.kv_sum - self.kv_sum, whole.kv_sum, 1e-10));
    EXPECT_TRUE(all_near(prefix.k_sum + suffix.k_sum - self.k_sum, whole.k_sum, 1e-10));
  }
}

TEST(CausalIdentitiesTest, AttentionCase32AWindowSlidesByAddingAndSubtracting) {
  const Tokens tokens = tokens_of(7);
  constexpr std::int64_t kWindow = 40;
  LinearState window = state_of(tokens, 0, kWindow);
  for (std::int64_t first = 0; first + kWindow < kGrid.num_tokens(); ++first) {
    const LinearState old = state_of(tokens, first, 1);
    const LinearState fresh = state_of(tokens, first + kWindow, 1);
    window.kv_sum = window.kv_sum + fresh.kv_sum - old.kv_sum;
    window.k_sum = window.k_sum + fresh.k_sum - old.k_sum;
  }
  const std::int64_t first = kGrid.num_tokens() - kWindow;
  const LinearState expected = state_of(tokens, first, kWindow);
  EXPECT_TRUE(all_near(window.kv_sum, expected.kv_sum, 1e-10));
  const TokenSpan span{first, kGrid};
  const at::Tensor q = tokens.q.narrow(2, first, kWindow);
  EXPECT_TRUE(all_near(read_out(*plain(), q, span, window, {}),
                       read_out(*plain(), q, span, expected, {}), 1e-10));
}

}  // namespace causal_identities_test
}  // namespace hydrascope::testing
