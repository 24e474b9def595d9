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
#include "model/attention/post_norm.h"
#include "model/registry/mechanisms.h"

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model {
namespace {

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
      return with_post_norm(std::move(mixer), arguments);
    },
}));

}  // namespace
}  // namespace hydrascope::model
