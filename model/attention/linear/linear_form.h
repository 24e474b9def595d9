// Linear attention, as kernels compute it.
#pragma once

#include "kernels/linear_attention/linear_attention.h"
#include "model/attention/kernel_form.h"
#include "model/attention/linear/feature_map.h"
#include "model/attention/linear/linear_attention.h"
#include "model/inference/cpu/mixings/linear.h"

#include <cstdint>
#include <utility>

namespace hydrascope::model {

class LinearForm final : public KernelForm {
 public:
  /// A map that kernels know, and another rule than Rule::signed_clamp.
  LinearForm(FeatureMapPtr map, const Normaliser& normaliser)
      : map_(std::move(map)), feature_(map_->fused().value()), normaliser_(normaliser) {}

  [[nodiscard]] HeadNetwork query(std::int64_t) const override { return feature_.query; }
  [[nodiscard]] HeadNetwork key(std::int64_t) const override { return feature_.key; }
  [[nodiscard]] inference::AnyMixing on_cpu(const inference::MixingSite& site,
                                            kernels::Storage storage) const override {
    return inference::make_mixing<inference::LinearMixing>(
        storage, site, shape(site.num_heads, site.head_dim), token_weights(site.grid));
  }
  [[nodiscard]] kernels::linear_attention::Shape shape(std::int64_t num_heads,
                                                       std::int64_t head_dim) const {
    namespace kernel = kernels::linear_attention;
    const bool divides = normaliser_.rule == Normaliser::Rule::add_eps;
    return {num_heads,
            feature_.query.weight.defined() ? feature_.query.weight.size(-1) : head_dim,
            head_dim,
            feature_.feature,
            divides ? kernel::Normaliser::add_eps : kernel::Normaliser::none,
            divides ? static_cast<float>(normaliser_.eps) : 0,
            static_cast<float>(feature_.unit_eps)};
  }
  [[nodiscard]] TokenWeights token_weights(const TokenGrid& grid) const {
    return map_->token_weights(grid);
  }

 private:
  FeatureMapPtr map_;
  FusedFeature feature_;
  Normaliser normaliser_;
};

}  // namespace hydrascope::model
