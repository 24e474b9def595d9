// Hedgehog (Zhang et al. 2024, The Hedgehog & the Porcupine, arXiv 2402.04347, section 4): linear
// attention whose feature map is a one-layer network, u = x W + b, trained to imitate softmax. The
// field uses five functions under this name; they are not stabilisations of each other, and weights
// trained for one are not valid for another:
//   exp_pos   exp(u)                            equation 3 of the paper
//   exp       [exp(u), exp(-u)]                 listings attributed to the paper's appendix
//   softmax2  [softmax(u), softmax(-u)]         LoLCATs, ThunderKittens
//   softmax1  softmax([2u, -2u])                flash-linear-attention
//   expdim    [exp(u - max u), exp(-u + min u)] LoLCATs' exp_dim
// All are exponentials, so linear_attention stabilises them from both sides, without an eps.
#include "model/attention/linear/learned_feature_map.h"

namespace hydrascope::model {
namespace {

using kernels::linear_attention::Feature;

const ChoiceOption<Feature> kVariant("variant",
                                     {{"exp", Feature::exp_pair},
                                      {"softmax2", Feature::softmax_pair},
                                      {"softmax1", Feature::softmax_both},
                                      {"exp_pos", Feature::exp},
                                      {"expdim", Feature::exp_centred}},
                                     "which of the five functions; part of what the weights mean");

const MechanismRegistration kHedgehog(learned_mechanism(
    {.name = "hedgehog",
     .aliases = {"hh"},
     .summary = "linear attention whose learned map imitates softmax, O(N D d)",
     .citation = "Zhang et al. 2024, The Hedgehog & the Porcupine: Expressive Linear Attentions "
                 "with Softmax Mimicry, arXiv 2402.04347",
     .options = {kVariant},
     .map_definition = "A_ij = phi(q_i).phi(k_j) / sum_t phi(q_i).phi(k_t), learned phi"},
    /*noise=*/0, [](const MechanismOptions& options) { return kVariant(options); }));

}  // namespace
}  // namespace hydrascope::model
