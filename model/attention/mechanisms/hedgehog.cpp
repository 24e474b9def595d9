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
#include "model/attention/linear_attention.h"
#include "model/attention/local_term.h"

#include <ATen/ATen.h>

namespace hydrascope::model {
namespace {

enum class HedgehogVariant { exp, softmax2, softmax1, exp_pos, expdim };

HedgehogVariant parse_variant(const std::string& name) {
  if (name == "softmax2") return HedgehogVariant::softmax2;
  if (name == "softmax1") return HedgehogVariant::softmax1;
  if (name == "exp_pos") return HedgehogVariant::exp_pos;
  return name == "expdim" ? HedgehogVariant::expdim : HedgehogVariant::exp;
}

class HedgehogMap : public LearnedFeatureMap {
 public:
  HedgehogMap(const TokenMixerArguments& arguments, const LearnedMapSettings& settings,
              HedgehogVariant variant)
      : LearnedFeatureMap(arguments, settings), variant_(variant) {}

  [[nodiscard]] Values values() const override { return Values::logarithms; }

  at::Tensor operator()(const at::Tensor& x, Side side, const TokenSpan&) const override {
    const at::Tensor u = network(x, side);
    switch (variant_) {
      case HedgehogVariant::exp_pos: return u;
      case HedgehogVariant::exp: return at::cat({u, -u}, -1);
      case HedgehogVariant::softmax2: return at::cat({u.log_softmax(-1), (-u).log_softmax(-1)}, -1);
      case HedgehogVariant::softmax1: return at::cat({2 * u, -2 * u}, -1).log_softmax(-1);
      case HedgehogVariant::expdim:
        return at::cat({u - u.amax(-1, /*keepdim=*/true), u.amin(-1, /*keepdim=*/true) - u}, -1);
    }
    return u;
  }

  [[nodiscard]] at::Tensor bounded_features(const at::Tensor& x, Side side) const override {
    if (variant_ != HedgehogVariant::softmax2 && variant_ != HedgehogVariant::softmax1) return {};
    const at::Tensor u = network(x, side);
    return variant_ == HedgehogVariant::softmax2 ? at::cat({u.softmax(-1), (-u).softmax(-1)}, -1)
                                                 : at::cat({2 * u, -2 * u}, -1).softmax(-1);
  }

  [[nodiscard]] std::optional<FusedFeature> fused() const override {
    return FusedFeature{feature(), 0, fused_network(Side::query), fused_network(Side::key)};
  }

 private:
  [[nodiscard]] kernels::linear_attention::Feature feature() const {
    using kernels::linear_attention::Feature;
    switch (variant_) {
      case HedgehogVariant::exp_pos: return Feature::exp;
      case HedgehogVariant::exp: return Feature::exp_pair;
      case HedgehogVariant::softmax2: return Feature::softmax_pair;
      case HedgehogVariant::softmax1: return Feature::softmax_both;
      case HedgehogVariant::expdim: return Feature::exp_centred;
    }
    return Feature::exp_pair;
  }

  HedgehogVariant variant_;
};

std::vector<MechanismOption> hedgehog_options() {
  std::vector<MechanismOption> list{
      choice_option("variant", "exp", {"exp", "softmax2", "softmax1", "exp_pos", "expdim"},
                    "which of the five functions; part of what the weights mean")};
  for (MechanismOption& option : learned_map_options()) list.push_back(std::move(option));
  list.push_back(form_option());
  return list;
}

const MechanismRegistration kHedgehog(with_local_term({
    .name = "hedgehog",
    .aliases = {"hh"},
    .summary = "linear attention whose learned map imitates softmax, O(N D d)",
    .citation = "Zhang et al. 2024, The Hedgehog & the Porcupine: Expressive Linear Attentions "
                "with Softmax Mimicry, arXiv 2402.04347",
    .options = hedgehog_options(),
    .parameters = learned_map_parameters("identity"),
    .map_definition = "A_ij = phi(q_i).phi(k_j) / sum_t phi(q_i).phi(k_t), learned phi",
    .rows_sum_to_one = true,
    .non_negative = true,
    .normalised = true,
    .cost =
        [](const MixerSize& size, const AttentionSpec& spec) {
          const MechanismOptions chosen(spec);
          const LearnedMapSettings settings = learned_map_settings(chosen, size.head_dim());
          const double halves = chosen.text("variant") == "exp_pos" ? 1 : 2;
          return linear_cost(size, halves * static_cast<double>(settings.width),
                             learned_map_multiply_adds(size, settings));
        },
    .added_elements =
        [](const MixerSize& size, const AttentionSpec& spec) {
          return learned_map_elements(
              size, learned_map_settings(MechanismOptions(spec), size.head_dim()));
        },
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      const MechanismOptions chosen(arguments.spec);
      const auto map = c10::make_intrusive<HedgehogMap>(
          arguments, learned_map_settings(chosen, arguments.head_dim),
          parse_variant(chosen.text("variant")));
      return std::make_unique<LinearMixer>(map, Normaliser{}, is_causal(chosen));
    },
}));

}  // namespace
}  // namespace hydrascope::model
