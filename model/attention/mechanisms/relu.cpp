// Linear attention with phi(x) = max(x, 0). F = d. A query whose features are all negative attends
// to nothing and gives 0 = 0 / (0 + eps), never NaN.
#include "model/attention/linear_attention.h"
#include "model/attention/local_term.h"

#include <ATen/ATen.h>

namespace hydrascope::model {
namespace {

class ReluMap : public FeatureMap {
 public:
  at::Tensor operator()(const at::Tensor& x, Side, const TokenSpan&) const override {
    return x.relu();
  }
  [[nodiscard]] std::optional<FusedFeature> fused() const override {
    return FusedFeature{kernels::linear_attention::Feature::relu, 0, {}, {}};
  }
};

const MechanismRegistration kRelu(with_local_term({
    .name = "relu",
    .aliases = {"relu_linear"},
    .summary = "linear attention with phi = ReLU, O(N D d)",
    .citation = "Zhang et al. 2024, The Hedgehog & the Porcupine, arXiv 2402.04347, section 3",
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
      return std::make_unique<LinearMixer>(c10::make_intrusive<ReluMap>(), Normaliser{},
                                           is_causal(MechanismOptions(arguments.spec)));
    },
}));

}  // namespace
}  // namespace hydrascope::model
