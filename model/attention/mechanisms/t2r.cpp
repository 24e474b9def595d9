// Transformer-to-RNN (Kasai et al. 2021, Finetuning Pretrained Transformers into RNNs, EMNLP,
// equation 5): linear attention with a learned map phi(x) = relu(x W + b). Trained by swapping the
// map in and fine-tuning everything, or by Hedgehog's distillation first ("T2R-HH"). The
// initialisation, identity plus small noise, is this project's.
#include "model/attention/learned_feature_map.h"
#include "model/attention/linear_attention.h"
#include "model/attention/local_term.h"

#include <ATen/ATen.h>

namespace hydrascope::model {
namespace {

constexpr double kNoise = 0.01;

class T2rMap : public LearnedFeatureMap {
 public:
  using LearnedFeatureMap::LearnedFeatureMap;
  at::Tensor operator()(const at::Tensor& x, Side side, const TokenSpan&) const override {
    return network(x, side).relu();
  }
  [[nodiscard]] std::optional<FusedFeature> fused() const override {
    return FusedFeature{kernels::linear_attention::Feature::relu, 0, fused_network(Side::query),
                        fused_network(Side::key)};
  }
};

std::vector<MechanismOption> t2r_options() {
  std::vector<MechanismOption> list = learned_map_options();
  list.push_back(form_option());
  return list;
}

const MechanismRegistration kT2r(with_local_term({
    .name = "t2r",
    .aliases = {"transformer_to_rnn"},
    .summary = "linear attention with a learned phi = ReLU(x W + b), O(N D d)",
    .citation = "Kasai et al. 2021, Finetuning Pretrained Transformers into RNNs, EMNLP",
    .options = t2r_options(),
    .parameters = learned_map_parameters("identity plus normal noise (0.01)"),
    .map_definition = "A_ij = phi(q_i).phi(k_j) / (sum_t phi(q_i).phi(k_t) + 1e-6), learned phi",
    .rows_sum_to_one = true,
    .non_negative = true,
    .normalised = true,
    .cost =
        [](const MixerSize& size, const AttentionSpec& spec) {
          const LearnedMapSettings settings =
              learned_map_settings(MechanismOptions(spec), size.head_dim());
          return linear_cost(size, static_cast<double>(settings.width),
                             learned_map_multiply_adds(size, settings));
        },
    .added_elements =
        [](const MixerSize& size, const AttentionSpec& spec) {
          return learned_map_elements(
              size, learned_map_settings(MechanismOptions(spec), size.head_dim()));
        },
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      const MechanismOptions chosen(arguments.spec);
      LearnedMapSettings settings = learned_map_settings(chosen, arguments.head_dim);
      settings.noise = kNoise;
      return std::make_unique<LinearMixer>(c10::make_intrusive<T2rMap>(arguments, settings),
                                           Normaliser{}, is_causal(chosen));
    },
}));

}  // namespace
}  // namespace hydrascope::model
