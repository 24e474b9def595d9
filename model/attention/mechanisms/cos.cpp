// Linear attention with sim(q, k) = 1 + cos(q, k), the first-order Taylor form of softmax on unit
// vectors: phi(x) = [1, x / |x|], F = 1 + d, weights in [0, 2]. The denominator is 0 only when
// every key is opposite to the query: eps.
#include "model/attention/linear/linear_mechanism.h"
#include "model/attention/unit_rows.h"

#include <ATen/ATen.h>

namespace hydrascope::model {
namespace {

at::Tensor one_and_unit_vector(const at::Tensor& x) {
  return at::constant_pad_nd(unit_rows(x), {1, 0}, 1);
}

const MechanismRegistration kCos(linear_mechanism(
    {.name = "cos",
     .aliases = {"1+cos", "taylor1"},
     .summary = "linear attention with sim = 1 + cosine (Taylor-1), O(N D d)",
     .citation = "first-order Taylor form of softmax on unit vectors; Katharopoulos et al. 2020, "
                 "arXiv 2006.16236 for the linear order",
     .map_definition = "A_ij = (1 + cos(q_i, k_j)) / (sum_t (1 + cos(q_i, k_t)) + 1e-6)"},
    {.map =
         [](const TokenMixerArguments&) {
           return formula_map(FeatureMap::Values::features, one_and_unit_vector);
         },
     .feature_dim =
         [](const MixerSize& size, const MechanismOptions&) {
           return 1 + static_cast<double>(size.head_dim());
         },
     .map_multiply_adds = [](const MixerSize& size,
                             const MechanismOptions&) { return 4 * token_elements(size); }}));

}  // namespace
}  // namespace hydrascope::model
