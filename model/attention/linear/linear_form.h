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
  /// `rule`: kernel_rule of the map. `lambda`: `carrying`'s; 0 without.
  LinearForm(FeatureMapPtr map, const kernels::linear_attention::Rule& rule, double lambda = 0)
      : map_(std::move(map)), feature_(map_->fused().value()), rule_(rule), lambda_(lambda) {}

  [[nodiscard]] HeadNetwork query(std::int64_t) const override { return feature_.query; }
  [[nodiscard]] HeadNetwork key(std::int64_t) const override { return feature_.key; }
  [[nodiscard]] bool serves_windows() const override { return true; }
  [[nodiscard]] inference::AnyMixing on_cpu(const inference::MixingSite& site,
                                            kernels::Storage storage) const override {
    return inference::make_mixing<inference::LinearMixing>(
        storage, shape(site.num_heads, site.head_dim), token_weights(site.grid), lambda_);
  }
  [[nodiscard]] std::unique_ptr<KernelForm> carrying(double lambda) const override {
    return std::make_unique<LinearForm>(map_, rule_, lambda);
  }
  [[nodiscard]] kernels::linear_attention::Shape shape(std::int64_t num_heads,
                                                       std::int64_t head_dim) const {
    const at::Tensor& weight = feature_.query.weight;
    return {num_heads, weight.defined() ? weight.size(-1) : head_dim, head_dim, rule_};
  }
  [[nodiscard]] TokenWeights token_weights(const TokenGrid& grid) const {
    return map_->token_weights(grid);
  }

 private:
  FeatureMapPtr map_;
  FusedFeature feature_;
  kernels::linear_attention::Rule rule_;
  double lambda_;
};

}  // namespace hydrascope::model
