// Identities of Hydra and its relatives: cases 17 (section 1.6), 18 to 21 and Hydra's part of 34 of
// the mathematical reference.
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>
#include <vector>

namespace hydrascope::testing {
namespace hydra_identities_test {

using model::Kernels;
using model::TokenGrid;
using torch::autograd::grad;

const HeadShape kShape{3, 4};
const TokenGrid kGrid{1, 4, 6};

Tokens tokens_of(std::uint64_t seed) {
  at::manual_seed(seed);
  return random_tokens(2, kGrid.num_tokens(), kShape, at::kDouble);
}

at::Tensor mixed(const model::AttentionSpec& spec, const Tokens& tokens,
                 const TokenGrid& grid = kGrid) {
  const HeadShape shape{tokens.q.size(1), tokens.q.size(3)};
  return plain_mixer(spec, kGrid, shape).mix(tokens, grid);
}

/// Every feature a head of its own: (B, H, N, d) -> (B, H d, N, 1).
Tokens one_wide(const Tokens& tokens) {
  const auto widen = [](const at::Tensor& x) {
    return model::split_heads(model::merge_heads(x), x.size(1) * x.size(3));
  };
  return {widen(tokens.q), widen(tokens.k), widen(tokens.v)};
}

at::Tensor unit(const at::Tensor& x) {
  const at::Tensor token = model::merge_heads(x);
  return token / token.norm(2, -1, true);
}

/// Norms above, below and far below an eps of one half.
Tokens with_small_tokens() {
  Tokens tokens = tokens_of(2);
  for (const at::Tensor& x : {tokens.q, tokens.k}) {
    x.select(2, 3).mul_(1e-2);
    x.select(2, 5).mul_(1e-5);
  }
  return tokens.leaves();
}

TEST(HydraIdentitiesTest, AttentionCase17EpsPoliciesAndTokensBelowEps) {
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

TEST(HydraIdentitiesTest, AttentionCase18CosineAttentionWithOneWideHeads) {
  const Tokens tokens = tokens_of(3);
  const Tokens narrow = one_wide(tokens);
  const at::Tensor hydra = mixed(spec_of("hydra"), tokens);
  EXPECT_TRUE(all_near(mixed(spec_of("mla", {{"norm_scope", "full"}}), narrow), hydra, 1e-10));
  const at::Tensor signs =
      model::merge_heads(tokens.q).sign() *
      (model::merge_heads(tokens.k).sign() * model::merge_heads(tokens.v)).sum(1, true);
  EXPECT_TRUE(all_near(mixed(spec_of("mla", {{"norm_scope", "head"}}), narrow), signs, 1e-10));
}

TEST(HydraIdentitiesTest, AttentionCase19RelativesAreHydraWithOtherKernels) {
  const Tokens tokens = tokens_of(4);
  EXPECT_TRUE(
      all_near(mixed(spec_of("hydra", {{"phi_q", "sigmoid"}, {"phi_k", "softmax_token"}}), tokens),
               mixed(spec_of("aft"), tokens), 1e-12));
  EXPECT_TRUE(all_near(mixed(spec_of("hydra", {{"phi_q", "mean"}, {"phi_k", "mean"}}), tokens),
                       mixed(spec_of("polynl"), tokens), 1e-12));
}

TEST(HydraIdentitiesTest, AttentionCase20FeatureMapsSumToTheCosine) {
  Tokens tokens = tokens_of(5);
  tokens.v = at::ones_like(tokens.v);
  const MixerUnderTest hydra = plain_mixer(spec_of("hydra"), kGrid, kShape);
  const at::Tensor cosines = unit(tokens.q).matmul(unit(tokens.k).mT());  // (B, N, N)
  for (const std::int64_t query : {0, 7, 24}) {
    const at::Tensor maps =
        hydra.contributions(tokens, kGrid, query);  // A_f[query, j] at (B, j, f)
    EXPECT_TRUE(all_near(maps.sum(-1), cosines.select(1, query), 1e-12));
  }
}

TEST(HydraIdentitiesTest, AttentionCase20LengthsAndACommonSignDoNotMatter) {
  const Tokens tokens = tokens_of(6);
  const at::Tensor y = mixed(spec_of("hydra"), tokens);
  EXPECT_TRUE(
      all_near(mixed(spec_of("hydra"), {3.7 * tokens.q, 0.02 * tokens.k, tokens.v}), y, 1e-10));
  EXPECT_TRUE(all_near(mixed(spec_of("hydra"), {-tokens.q, -tokens.k, tokens.v}), y, 0));
}

TEST(HydraIdentitiesTest, AttentionCase21TheGlobalVectorFoldsIntoTheProjection) {
  const Tokens tokens = tokens_of(7);
  const std::int64_t dim = kShape.num_heads * kShape.head_dim;
  const at::Tensor weight = at::randn({dim, dim}, at::kDouble);
  const at::Tensor projected = mixed(spec_of("hydra"), tokens).matmul(weight.t());
  const at::Tensor c = (unit(tokens.k) * model::merge_heads(tokens.v)).sum(1);
  const at::Tensor folded = c.unsqueeze(-1) * weight.t();  // diag(c) W^T, one an image
  EXPECT_TRUE(all_near(projected, unit(tokens.q).matmul(folded), 1e-10));
}

TEST(HydraIdentitiesTest, AttentionCase21AnAffineMapFoldsIntoTheQueryProjection) {
  Tokens tokens = tokens_of(8);
  const MixerUnderTest learned = plain_mixer(spec_of("hedgehog"), kGrid, kShape);
  const at::Tensor w = at::randn({kShape.num_heads, kShape.head_dim, kShape.head_dim}, at::kDouble);
  const at::Tensor b = at::randn({kShape.num_heads, kShape.head_dim}, at::kDouble);
  learned.set("feature_map.q.weight", w);
  learned.set("feature_map.q.bias", b);
  // q = x W_q + b_q, head by head; the map of it is that of x (W_q W) + (b_q W + b).
  const at::Tensor x = tokens.q;
  const at::Tensor wq = at::randn_like(w);
  const at::Tensor bq = at::randn_like(b).unsqueeze(1);
  tokens.q = x.matmul(wq) + bq;
  const at::Tensor y = learned.mix(tokens, kGrid);
  learned.set_identity_maps();
  tokens.q = x.matmul(wq.matmul(w)) + (bq.matmul(w) + b.unsqueeze(1));
  EXPECT_TRUE(all_near(learned.mix(tokens, kGrid), y, 1e-10));
}

TEST(HydraIdentitiesTest, AttentionCase34DuplicationDoublesTheSum) {
  const Tokens tokens = tokens_of(9);
  const at::Tensor index = at::arange(kGrid.num_tokens());
  const at::Tensor prefix = index.narrow(0, 0, 1);
  const at::Tensor patches = index.narrow(0, 1, 24);
  const at::Tensor twice = at::cat({prefix, prefix, patches, patches});
  const TokenGrid doubled{2, 8, 6};
  const auto growth = [&](const char* scale) {
    const model::AttentionSpec spec = spec_of("hydra", {{"scale", scale}});
    return at::Tensor(mixed(spec, tokens.tokens(twice), doubled) /
                      mixed(spec, tokens).index_select(1, twice));
  };
  const auto constant = [](double value) {
    return at::full({2, 50, kShape.num_heads * kShape.head_dim}, value);
  };
  EXPECT_TRUE(all_near(growth("none"), constant(2), 1e-8));
  EXPECT_TRUE(all_near(growth("linear"), constant(1), 1e-8));
  EXPECT_TRUE(all_near(growth("sqrt"), constant(std::sqrt(2.0)), 1e-6));
}

}  // namespace hydra_identities_test
}  // namespace hydrascope::testing
