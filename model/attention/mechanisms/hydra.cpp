// Hydra attention (Bolya et al. 2022, arXiv 2209.07484, equation 7; not the bidirectional
// state-space model of the same name): H = D heads of width one, so attention is one global vector.
//   c = sum_t w_t phi_k(k_t) * v_t      y_i = phi_q(q_i) * (s * c)
// Deviations from the paper: zero tokens (`eps_policy`), sizes other than the training size
// (`scale`, w_t; kernels that hold a power of 1/N already are scaled by the rest only), and an
// optional learned s (`feature_scale`) for converted models.
#include "model/attention/hydra_attention.h"
#include "model/attention/local_term.h"
#include "model/attention/registry.h"

#include <ATen/ATen.h>

namespace hydrascope::model {
namespace {

EpsPolicy eps_policy(const std::string& name) {
  if (name == "rsqrt") return EpsPolicy::rsqrt;
  return name == "add" ? EpsPolicy::add : EpsPolicy::max;
}

const MechanismRegistration kHydra(with_local_term({
    .name = "hydra",
    .aliases = {"hydra_attention"},
    .summary = "one global feature vector gated by each token, O(N D)",
    .citation = "Bolya et al. 2022, Hydra Attention: Efficient Attention with Many Heads, arXiv "
                "2209.07484",
    .options = {choice_option("phi_q", "cosine", hydra_kernel_names(), "kernel of the queries"),
                choice_option("phi_k", "cosine", hydra_kernel_names(), "kernel of the keys"),
                choice_option("scale", "linear", token_scale_names(),
                              "correction of the sum at a size other than the training size"),
                choice_option("eps_policy", "max", {"max", "rsqrt", "add"},
                              "what replaces the norm of a token"),
                number_option("eps", "1e-6", 1e-12, 1, "smallest norm"),
                choice_option("small_tokens", "constant", {"constant", "exact"},
                              "gradient of tokens whose norm is below eps"),
                switch_option("feature_scale", false,
                              "learn a scale for each feature of the global "
                              "vector")},
    .parameters = {{"feature_scale", "(D), with feature_scale=on", "ones"}},
    .map_definition = "none (every feature has a rank-one map); contribution of token t to token "
                      "i: phi_q(q_i) * w_t phi_k(k_t) * v_t",
    .has_map = false,
    .cost = [](const MixerSize& size, const AttentionSpec&) { return hydra_cost(size, 4); },
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      const MechanismOptions options(arguments.spec);
      at::Tensor feature_scale;
      if (options.on("feature_scale")) {
        feature_scale = arguments.add_parameter(
            "feature_scale", at::ones({arguments.num_heads * arguments.head_dim}));
      }
      const HydraSettings settings{find_hydra_kernel(options.text("phi_q")),
                                   find_hydra_kernel(options.text("phi_k")),
                                   {eps_policy(options.text("eps_policy")), options.number("eps"),
                                    options.text("small_tokens") == "constant"}};
      return std::make_unique<HydraMixer>(settings, parse_token_scale(options.text("scale")),
                                          arguments.training_grid, feature_scale);
    },
}));

}  // namespace
}  // namespace hydrascope::model
