// Hydra attention (Bolya et al. 2022, arXiv 2209.07484, equation 7; not the bidirectional
// state-space model of the same name): H = D heads of width one, so attention is one global vector.
//   c = sum_t w_t phi_k(k_t) * v_t      y_i = phi_q(q_i) * (s * c)
// Deviations from the paper: zero tokens (`eps_policy`), sizes other than the training size
// (`scale`, w_t; kernels that hold a power of 1/N already are scaled by the rest only), and an
// optional learned s (`feature_scale`) for converted models. `post_norm` is the article's LayerNorm
// behind the operation. Layers with another `eps_policy` than `max`, or with `post_norm`, have no
// kernels.
#include "model/attention/hydra_attention.h"
#include "model/attention/local_term.h"
#include "model/registry/mechanisms.h"

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model {
namespace {

using at::Tensor;

ChoiceOption<const HydraKernel*> kernel_option(std::string key, std::string help) {
  std::vector<std::pair<std::string, const HydraKernel*>> choices;
  for (const HydraKernel& kernel : hydra_kernels()) choices.emplace_back(kernel.name, &kernel);
  return {std::move(key), std::move(choices), std::move(help)};
}

const auto kPhiQ = kernel_option("phi_q", "kernel of the queries");
const auto kPhiK = kernel_option("phi_k", "kernel of the keys");
const auto kHydraScale = token_scale_option();
const ChoiceOption<EpsPolicy> kEpsPolicy(
    "eps_policy", {{"max", EpsPolicy::max}, {"rsqrt", EpsPolicy::rsqrt}, {"add", EpsPolicy::add}},
    "what replaces the norm of a token");
const NumberOption kHydraEps("eps", "1e-6", 1e-12, 1, "smallest norm");
const SwitchOption kFeatureScale("feature_scale", false,
                                 "learn a scale for each feature of the global vector");
const SwitchOption kPostNorm("post_norm", false,
                             "LayerNorm of the output, in front of its projection");

/// phi with the options' smallest norm.
HydraKernel with_eps(HydraKernel phi, const MechanismOptions& options) {
  if (phi.rule) phi.rule->eps = static_cast<float>(kHydraEps(options));
  return phi;
}

constexpr double kNormEps = 1e-6;  // as in the blocks' norms

/// LayerNorm behind the mixing of tokens and in front of the output projection, which the article tries
/// ("+ LN"). It adds post_norm.{weight,bias} (D) to the layer: ones and zeros.
class PostNormMixer final : public TokenMixer {
 public:
  PostNormMixer(std::unique_ptr<TokenMixer> mixer, const TokenMixerArguments& arguments)
      : mixer_(std::move(mixer)) {
    const std::int64_t dim = arguments.num_heads * arguments.head_dim;
    weight_ = arguments.add_parameter("post_norm.weight", at::ones({dim}));
    bias_ = arguments.add_parameter("post_norm.bias", at::zeros({dim}));
  }

  Tensor mix(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
             Kernels kernels) override {
    return normed(mixer_->mix(q, k, v, grid, kernels)).to(v.scalar_type());
  }
  /// Undefined: every feature of the output depends on all features of the values.
  Tensor attention_rows(const Tensor&, const Tensor&, const TokenGrid&, std::int64_t,
                        std::int64_t) override {
    return {};
  }
  Tensor mix_rows(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                  std::int64_t first, std::int64_t count) override {
    return normed(mixer_->mix_rows(q, k, v, grid, first, count)).to(v.scalar_type());
  }
  Tensor mix_state(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                   const std::function<void(MixerState&)>& change) override {
    return normed(mixer_->mix_state(q, k, v, grid, change)).to(v.scalar_type());
  }
  /// With the row's deviation s held fixed g . (w (y - mean y) / s + b) is linear in y: each token
  /// gets the part of its share of y; the part of b is split evenly among all tokens.
  Tensor weighted_rows(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                       const TokenGrid& grid, std::int64_t first, std::int64_t count) override {
    const Tensor y = to_compute_type(mixer_->mix_rows(q, k, v, grid, first, count));
    const Tensor deviation = (y.var(-1, /*unbiased=*/false, /*keepdim=*/true) + kNormEps).sqrt();
    const Tensor of_norm = g.to(y.scalar_type()) * weight_.to(y.scalar_type());
    const Tensor of_mixer = (of_norm - of_norm.mean(-1, true)) / deviation;
    const Tensor of_bias =
        split_heads(g.to(y.scalar_type()) * bias_.to(y.scalar_type()), v.size(1)).sum(-1, true);
    const Tensor parts = mixer_->weighted_rows(q, k, v, of_mixer, grid, first, count);
    return parts + of_bias / static_cast<double>(grid.num_tokens());
  }
  [[nodiscard]] bool needs_all_queries() const override { return mixer_->needs_all_queries(); }

 private:
  [[nodiscard]] Tensor normed(const Tensor& y) const {
    const Tensor x = to_compute_type(y);
    return at::layer_norm(x, {x.size(-1)}, weight_.to(x.scalar_type()), bias_.to(x.scalar_type()),
                          kNormEps);
  }

  std::unique_ptr<TokenMixer> mixer_;
  Tensor weight_;  ///< (D)
  Tensor bias_;    ///< (D)
};

const MechanismRegistration kHydra(with_local_term({
    .name = "hydra",
    .aliases = {"hydra_attention"},
    .summary = "one global feature vector gated by each token, O(N D)",
    .citation = "Bolya et al. 2022, Hydra Attention: Efficient Attention with Many Heads, arXiv "
                "2209.07484",
    .options = {kPhiQ, kPhiK, kHydraScale, kEpsPolicy, kHydraEps, kFeatureScale, kPostNorm},
    .former_options = {{"small_tokens", "constant"}},
    .parameters = {{"feature_scale", "(D), with feature_scale=on", "ones"},
                   {"post_norm.weight", "(D), with post_norm=on", "ones"},
                   {"post_norm.bias", "(D), with post_norm=on", "zeros"}},
    .map_definition = "none (every feature has a rank-one map); contribution of token t to token "
                      "i: phi_q(q_i) * w_t phi_k(k_t) * v_t",
    .has_map = false,
    .has_state = true,
    .starts_fitted = true,
    .cost = [](const MixerSize& size, const MechanismOptions&) { return hydra_cost(size, 4); },
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      const MechanismOptions& options = arguments.options;
      at::Tensor feature_scale;
      if (kFeatureScale(options)) {
        feature_scale = arguments.add_parameter(
            "feature_scale", at::ones({arguments.num_heads * arguments.head_dim}));
      }
      const HydraSettings settings{with_eps(*kPhiQ(options), options),
                                   with_eps(*kPhiK(options), options), kEpsPolicy(options)};
      auto mixer = std::make_unique<HydraMixer>(settings, kHydraScale(options),
                                                arguments.training_grid, feature_scale);
      if (!kPostNorm(options)) return mixer;
      return std::make_unique<PostNormMixer>(std::move(mixer), arguments);
    },
}));

}  // namespace
}  // namespace hydrascope::model
