// Linear attention with phi(x) = elu(x) + 1 (Katharopoulos et al. 2020, arXiv 2006.16236, equation
// 7): x + 1 above 0, exp(x) below. F = d. exp(x) underflows below -87, hence the eps.
#include "model/attention/linear_attention.h"
#include "model/attention/local_term.h"

#include <ATen/ATen.h>

namespace hydrascope::model {
namespace {

class EluMap : public FeatureMap {
 public:
  at::Tensor operator()(const at::Tensor& x, Side, const TokenSpan&) const override {
    // exp(x) - 1 + 1 would lose what is small: a tenth of its value at x = -15.
    return at::where(x > 0, x + 1, x.clamp_max(0).exp());
  }
  [[nodiscard]] std::optional<FusedFeature> fused() const override {
    return FusedFeature{kernels::linear_attention::Feature::elu_plus_one, 0, {}, {}};
  }
};

const MechanismRegistration kElu(with_local_term({
    .name = "elu",
    .aliases = {"linear", "elu+1", "elu1"},
    .summary = "linear attention with phi = elu + 1, O(N D d)",
    .citation = "Katharopoulos et al. 2020, Transformers are RNNs, arXiv 2006.16236",
    .options = {form_option()},
    .map_definition = "A_ij = phi(q_i).phi(k_j) / (phi(q_i).sum_t phi(k_t) + 1e-6)",
    .rows_sum_to_one = true,
    .non_negative = true,
    .normalised = true,
    .cost =
        [](const MixerSize& size, const AttentionSpec&) {
          return linear_cost(size, static_cast<double>(size.head_dim()), 0);
        },
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      return std::make_unique<LinearMixer>(c10::make_intrusive<EluMap>(), Normaliser{},
                                           is_causal(MechanismOptions(arguments.spec)));
    },
}));

}  // namespace
}  // namespace hydrascope::model
