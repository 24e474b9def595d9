// Linear attention with sim(q, k) = 1 + cos(q, k), the first-order Taylor form of softmax on unit
// vectors: phi(x) = [1, x / |x|], F = 1 + d, weights in [0, 2]. The denominator is 0 only when
// every key is opposite to the query: eps.
#include "model/attention/hydra_kernel.h"
#include "model/attention/linear_attention.h"
#include "model/attention/local_term.h"

#include <ATen/ATen.h>

namespace hydrascope::model {
namespace {

class CosMap : public FeatureMap {
 public:
  at::Tensor operator()(const at::Tensor& x, Side, const TokenSpan&) const override {
    return at::constant_pad_nd(unit_vectors(x), {1, 0}, 1);
  }
};

const MechanismRegistration kCos(with_local_term({
    .name = "cos",
    .aliases = {"1+cos", "taylor1"},
    .summary = "linear attention with sim = 1 + cosine (Taylor-1), O(N D d)",
    .citation = "first-order Taylor form of softmax on unit vectors; Katharopoulos et al. 2020, "
                "arXiv 2006.16236 for the linear order",
    .options = {form_option()},
    .map_definition = "A_ij = (1 + cos(q_i, k_j)) / (sum_t (1 + cos(q_i, k_t)) + 1e-6)",
    .rows_sum_to_one = true,
    .non_negative = true,
    .normalised = true,
    .cost =
        [](const MixerSize& size, const AttentionSpec&) {
          const double elements =
              static_cast<double>(size.num_tokens()) * static_cast<double>(size.embed_dim);
          return linear_cost(size, 1 + static_cast<double>(size.head_dim()), 4 * elements);
        },
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      return std::make_unique<LinearMixer>(c10::make_intrusive<CosMap>(), Normaliser{},
                                           is_causal(MechanismOptions(arguments.spec)));
    },
}));

}  // namespace
}  // namespace hydrascope::model
