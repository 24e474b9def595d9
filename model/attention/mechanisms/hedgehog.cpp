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
#include "model/attention/learned_feature_map.h"

#include <ATen/ATen.h>

namespace hydrascope::model {
namespace {

using at::Tensor;
using kernels::linear_attention::Feature;

constexpr auto kLogarithms = FeatureMap::Values::logarithms;

const ChoiceOption<LearnedFormula> kVariant(
    "variant",
    {{"exp",
      {kLogarithms,
       [](const Tensor& u) {
         return at::cat({u, -u}, -1);
       },
       2, Feature::exp_pair}},
     {"softmax2",
      {kLogarithms,
       [](const Tensor& u) {
         return at::cat({u.log_softmax(-1), (-u).log_softmax(-1)}, -1);
       },
       2, Feature::softmax_pair,
       [](const Tensor& u) {
         return at::cat({u.softmax(-1), (-u).softmax(-1)}, -1);
       }}},
     {"softmax1",
      {kLogarithms,
       [](const Tensor& u) {
         return at::cat({2 * u, -2 * u}, -1).log_softmax(-1);
       },
       2, Feature::softmax_both,
       [](const Tensor& u) {
         return at::cat({2 * u, -2 * u}, -1).softmax(-1);
       }}},
     {"exp_pos", {kLogarithms, [](const Tensor& u) { return u; }, 1, Feature::exp}},
     {"expdim",
      {kLogarithms,
       [](const Tensor& u) {
         return at::cat({u - u.amax(-1, true), u.amin(-1, true) - u}, -1);
       },
       2, Feature::exp_centred}}},
    "which of the five functions; part of what the weights mean");

const MechanismRegistration kHedgehog(learned_mechanism(
    {.name = "hedgehog",
     .aliases = {"hh"},
     .summary = "linear attention whose learned map imitates softmax, O(N D d)",
     .citation = "Zhang et al. 2024, The Hedgehog & the Porcupine: Expressive Linear Attentions "
                 "with Softmax Mimicry, arXiv 2402.04347",
     .options = {kVariant},
     .map_definition = "A_ij = phi(q_i).phi(k_j) / sum_t phi(q_i).phi(k_t), learned phi"},
    /*noise=*/0,
    [](const MechanismOptions& options) -> const LearnedFormula& { return kVariant(options); }));

}  // namespace
}  // namespace hydrascope::model
