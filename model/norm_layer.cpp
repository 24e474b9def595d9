#include "model/norm_layer.h"

namespace hydrascope::model {

NormLayerImpl::NormLayerImpl(const VitConfig& config, std::int64_t width)
    : eps_(config.layer_norm_eps) {
  weight_ = register_parameter("weight", torch::ones({width}));
  if (!config.rms_norm) bias_ = register_parameter("bias", torch::zeros({width}));
}

torch::Tensor NormLayerImpl::forward(const torch::Tensor& x) {
  if (bias_.defined()) return torch::layer_norm(x, weight_.sizes(), weight_, bias_, eps_);
  // Autocast has layer_norm in float32, and no word for rms_norm.
  return torch::rms_norm(x.to(weight_.scalar_type()), weight_.sizes(), weight_, eps_);
}

}  // namespace hydrascope::model
