// The grounds of explanations of a prediction: contributions, gradients of the map, rollout. Cases 13
// (rollout), 36 and 37 of the mathematical reference and identities I1 to I4 of its section 1.7.
#include "model/attention/linear/linear_attention.h"
#include "model/block.h"
#include "tests/model/attention/local_feature_map.h"
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/attention/registry_cases.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

namespace hydrascope::testing {
namespace explanation_identities_test {

using model::AttentionTrace;
using model::Kernels;
using model::Normaliser;
using model::TokenGrid;
using torch::autograd::grad;

const HeadShape kShape{2, 4};
const TokenGrid kGrid{1, 3, 4};

/// The last block of a classifier and all that follows it, in double.
class LastBlock {
 public:
  explicit LastBlock(const model::AttentionSpec& spec) : block_(config(spec), 1) {
    block_->to(at::kDouble);
    x_ = at::randn({1, kGrid.num_tokens(), kDim}, at::kDouble);
    head_ = at::randn({kDim}, at::kDouble);
  }

  AttentionTrace trace(Kernels kernels) {
    return block_->attention().trace(block_->normalise(x_), kGrid, kernels);
  }
  /// The logit of one class from the class token.
  at::Tensor logit(const AttentionTrace& trace) {
    return head_.dot(at::layer_norm(block_->complete(x_, trace.output)[0][0], {kDim}));
  }

  /// The contribution of each token to the class token.
  at::Tensor contributions(const AttentionTrace& trace) {
    return testing::contributions(child<model::AttentionImpl>("attn").mixer(), trace.q, trace.k,
                                  trace.v, kGrid, 0);
  }

  /// The same from the mixer's output at the class token (D).
  at::Tensor logit_after_mixing(const at::Tensor& y_cls) const {
    const at::Tensor x = x_[0][0] + child<torch::nn::LinearImpl>("attn.proj").forward(y_cls);
    const at::Tensor normed = child<torch::nn::LayerNormImpl>("norm2").forward(x);
    return head_.dot(at::layer_norm(x + child<model::MlpImpl>("mlp").forward(normed), {kDim}));
  }

 private:
  static constexpr std::int64_t kDim = 8;

  static model::VitConfig config(const model::AttentionSpec& spec) {
    model::VitConfig config;
    config.img_height = 24;
    config.img_width = 32;
    config.patch_size = 8;
    config.embed_dim = kDim;
    config.num_heads = 2;
    config.depth = 2;
    config.attention = {spec, spec};
    return config;
  }

  template <class Module>
  [[nodiscard]] Module& child(const char* name) const {
    return dynamic_cast<Module&>(*block_->named_modules()[name]);
  }

  model::Block block_;
  at::Tensor x_;
  at::Tensor head_;
};

class HeatTest : public RegistryCase {};

TEST_P(HeatTest, AttentionCase36HeatIsTheDerivativeByTheShareOfAToken) {
  for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
    at::manual_seed(1);
    LastBlock block(spec_of(entry().name));
    const AttentionTrace trace = block.trace(kernels);
    const at::Tensor logit = block.logit(trace);
    const auto gradients = grad({logit}, {trace.output, trace.v});
    const at::Tensor g = gradients[0][0];
    const at::NoGradGuard no_grad;
    const at::Tensor y = trace.output[0][0];
    const at::Tensor contributions = block.contributions(trace)[0];  // (N, D)
    EXPECT_TRUE(all_near(contributions.sum(0), y, 1e-10));
    // In the last block no other token reaches the class.
    EXPECT_TRUE(g.narrow(0, 1, kGrid.num_tokens() - 1).eq(0).all().item<bool>());
    const at::Tensor heat = contributions.matmul(g[0]);
    EXPECT_NEAR(heat.sum().item<double>(), g[0].dot(y).item<double>(), 1e-10);
    const at::Tensor v_dot_dv = (trace.v * gradients[1]).sum({0, 1, 3});
    EXPECT_TRUE(all_near(heat, v_dot_dv, 1e-10));
    EXPECT_NEAR(block.logit_after_mixing(y).item<double>(), logit.item<double>(), 1e-12);
    constexpr double kStep = 1e-5;
    for (std::int64_t t = 0; t < kGrid.num_tokens(); ++t) {
      const double above = block.logit_after_mixing(y + kStep * contributions[t]).item<double>();
      const double below = block.logit_after_mixing(y - kStep * contributions[t]).item<double>();
      EXPECT_NEAR((above - below) / (2 * kStep), heat[t].item<double>(), 1e-6) << "token " << t;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, HeatTest, all_entries(), entry_name);

Tokens tokens_of(std::uint64_t seed) {
  at::manual_seed(seed);
  return random_tokens(1, kGrid.num_tokens(), kShape, at::kDouble);
}

at::Tensor phi(const at::Tensor& x) { return at::elu(x) + 1; }

TEST(ExplanationIdentitiesTest, AttentionCase37GradientOfAFreeMap) {
  const Tokens tokens = tokens_of(2);
  for (const char* const name : {"softmax", "elu", "hedgehog", "rfa", "linformer"}) {
    const MixerUnderTest mixer = plain_mixer(spec_of(name), kGrid, kShape);
    const at::Tensor map = mixer.map(tokens, kGrid).detach().requires_grad_();
    const at::Tensor y = mixer.mix(tokens, kGrid);
    const at::Tensor from_map = model::merge_heads(map.matmul(tokens.v));
    EXPECT_TRUE(all_near(from_map, y, 1e-9)) << name;
    const at::Tensor g = at::randn_like(from_map);
    const at::Tensor expected =
        model::split_heads(g, kShape.num_heads).matmul(tokens.v.mT());  // g_i . v_j
    EXPECT_TRUE(all_near(grad({from_map}, {map}, {g})[0], expected, 1e-12)) << name;
  }
}

/// A factor 1 + alpha_j on the weight of key j, by a feature map that knows its tokens.
TEST(ExplanationIdentitiesTest, AttentionCase37SensitivitySumsToZero) {
  const Tokens tokens = tokens_of(3);
  const at::Tensor alpha = at::zeros({kGrid.num_tokens(), 1}, at::kDouble).requires_grad_();
  const auto map = c10::make_intrusive<LocalFeatureMap>(
      model::FeatureMap::Values::features,
      [&](const at::Tensor& x, model::Side side, const model::TokenSpan& span) {
        return side == model::Side::query
                   ? phi(x)
                   : at::Tensor(phi(x) * (1 + alpha.narrow(0, span.first, x.size(2))));
      });
  const at::Tensor g = at::randn({1, 2, 1, kShape.head_dim}, at::kDouble);
  for (const auto rule : {Normaliser::Rule::add_eps, Normaliser::Rule::none}) {
    const Normaliser normaliser{rule, 0};
    const at::Tensor y =
        linear_attention_reference(map, tokens.q, tokens.k, tokens.v, kGrid, normaliser);
    const at::Tensor y_cls = y.narrow(2, 0, 1);
    const at::Tensor found = grad({(g * y_cls).sum()}, {alpha})[0].squeeze(-1);
    const at::NoGradGuard no_grad;
    const at::Tensor row =
        linear_attention_rows(map, tokens.q, tokens.k, kGrid, normaliser, 0, 1).transpose(-2, -1);
    const bool normalised = rule == Normaliser::Rule::add_eps;
    const at::Tensor relative_to = normalised ? y_cls : at::zeros_like(y_cls);
    const at::Tensor sensitivity = (row * g * (tokens.v - relative_to)).sum({0, 1, 3});
    EXPECT_TRUE(all_near(found, sensitivity, 1e-12));
    EXPECT_NEAR(sensitivity.sum().item<double>(), normalised ? 0 : (g * y_cls).sum().item<double>(),
                1e-12);
  }
}

/// (A + I) / 2, the heads averaged: (N, N).
at::Tensor with_residual(const at::Tensor& map) {
  return (map.mean(1)[0] + at::eye(map.size(-1), at::kDouble)) / 2;
}

TEST(ExplanationIdentitiesTest, AttentionCase13RolloutOfTwoUniformLayers) {
  const TokenGrid pair{1, 1, 1};
  Tokens tokens = random_tokens(1, 2, kShape, at::kDouble);
  tokens.q = at::zeros_like(tokens.q);
  const at::Tensor layer =
      with_residual(plain_mixer(spec_of("softmax"), pair, kShape).map(tokens, pair));
  EXPECT_TRUE(all_near(layer.matmul(layer)[0], at::tensor({.625, .375}, at::kDouble), 1e-12));
}

TEST(ExplanationIdentitiesTest, AttentionCase37FactorisedRolloutIsTheFullProduct) {
  constexpr int kLayers = 3;
  std::vector<Tokens> layers;
  at::Tensor product = at::eye(kGrid.num_tokens(), at::kDouble);
  for (int layer = 0; layer < kLayers; ++layer) {
    layers.push_back(tokens_of(static_cast<std::uint64_t>(10 + layer)));
    const at::Tensor map =
        linear_attention_rows(features(phi), layers.back().q, layers.back().k, kGrid,
                              {Normaliser::Rule::add_eps, 0}, 0, kGrid.num_tokens());
    product = with_residual(map).matmul(product);
  }
  // r <- r/2 + 1/(2H) sum_h ((r / m_h)^T Phi_q,h) Phi_k,h^T, from the last layer to the first.
  at::Tensor r = at::zeros({1, kGrid.num_tokens()}, at::kDouble);
  r[0][0] = 1;
  for (int layer = kLayers - 1; layer >= 0; --layer) {
    const Tokens& tokens = layers[static_cast<std::size_t>(layer)];
    const at::Tensor a = phi(tokens.q)[0];  // (H, N, F)
    const at::Tensor b = phi(tokens.k)[0];
    const at::Tensor m = (a * b.sum(1, true)).sum(-1);  // (H, N)
    const at::Tensor mixed = (r / m).unsqueeze(1).matmul(a).matmul(b.mT()).squeeze(1);
    r = r / 2 + mixed.mean(0, true) / 2;
  }
  EXPECT_TRUE(all_near(r[0], product[0], 1e-12));
  EXPECT_NEAR(r.sum().item<double>(), 1, 1e-12);
}

}  // namespace explanation_identities_test
}  // namespace hydrascope::testing
