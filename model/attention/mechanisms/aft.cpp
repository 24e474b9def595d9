// AFT-Simple (Zhai et al. 2021, An Attention Free Transformer, arXiv 2105.14103, section 3.3):
//   y_i = sigmoid(q_i) * sum_t exp(k_t) * v_t / sum_t exp(k_t)      per feature
// which is Hydra with phi_q = sigmoid and phi_k = softmax over the tokens.
#include "model/attention/hydra_attention.h"
#include "model/registry/mechanisms.h"

namespace hydrascope::model {
namespace {

const MechanismRegistration kAft({
    .name = "aft",
    .aliases = {"aft_simple"},
    .summary = "AFT-Simple: a token average weighted by exp(k), gated by sigmoid(q), O(N D)",
    .citation = "Zhai et al. 2021, An Attention Free Transformer, arXiv 2105.14103",
    .map_definition = "none (one per feature); contribution of token t to token i: sigmoid(q_i) * "
                      "softmax_t(k) * v_t",
    .has_map = false,
    .normalised = true,
    .has_state = true,
    .cost = [](const MixerSize& size, const MechanismOptions&) { return hydra_cost(size, 3); },
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      return std::make_unique<HydraMixer>(
          HydraSettings{find_hydra_kernel("sigmoid"), find_hydra_kernel("softmax_token")},
          TokenScale::none, arguments.training_grid);
    },
});

}  // namespace
}  // namespace hydrascope::model
