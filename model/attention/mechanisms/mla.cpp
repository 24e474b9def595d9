// Multi-head linear attention with the cosine kernel and no denominator (Bolya et al. 2022, arXiv
// 2209.07484, section 3; Hydra is its limit H = D):
//   y_h = qh_h (kh_h^T v_h)      qh, kh unit vectors
// `norm_scope=full` takes the norm over all D features, `head` over the d of a head. Like Hydra's
// sum, the product grows with N, and the same scale policies apply.
#include "model/attention/linear/linear_mechanism.h"
#include "model/attention/token_scale.h"
#include "model/attention/unit_rows.h"

#include <ATen/ATen.h>

namespace hydrascope::model {
namespace {

class UnitMap final : public FeatureMap {
 public:
  UnitMap(bool over_all_heads, TokenScale scale, const TokenGrid& training_grid)
      : over_all_heads_(over_all_heads), scale_(scale), training_grid_(training_grid) {}

  at::Tensor operator()(const at::Tensor& x, Side, const TokenSpan&) const override {
    return over_all_heads_ ? split_heads(unit_rows(merge_heads(x)), x.size(1)) : unit_rows(x);
  }
  [[nodiscard]] std::optional<FusedFeature> fused() const override {
    if (over_all_heads_) return std::nullopt;
    return FusedFeature{kernels::linear_attention::Feature::unit};
  }
  [[nodiscard]] TokenWeights token_weights(const TokenGrid& grid) const override {
    return model::token_weights(scale_, training_grid_, grid);
  }

 private:
  bool over_all_heads_;
  TokenScale scale_;
  TokenGrid training_grid_;
};

const ChoiceOption<bool> kNormOverAllHeads("norm_scope", {{"full", true}, {"head", false}},
                                           "unit vectors over all D features or over a head's d");
const auto kMlaScale = token_scale_option();

const MechanismRegistration kMla(linear_mechanism(
    {.name = "mla",
     .aliases = {"cosine", "multi_head_linear"},
     .summary = "cosine linear attention with H heads and no denominator, O(N D d)",
     .citation = "Bolya et al. 2022, Hydra Attention, arXiv 2209.07484, section 3",
     .options = {kNormOverAllHeads, kMlaScale},
     .map_definition = "A_ij = w_j qh_i.kh_j, signed"},
    {.map = [](const TokenMixerArguments& arguments) -> FeatureMapPtr {
       return c10::make_intrusive<UnitMap>(kNormOverAllHeads(arguments.options),
                                           kMlaScale(arguments.options), arguments.training_grid);
     },
     .normaliser = {Normaliser::Rule::none, 0},
     .map_multiply_adds = [](const MixerSize& size,
                             const MechanismOptions&) { return 4 * token_elements(size); }}));

}  // namespace
}  // namespace hydrascope::model
