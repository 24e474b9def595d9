// The network's norms over the features of a token.
#pragma once

#include "model/config/config.h"

#include <torch/nn/module.h>

#include <cstdint>

namespace hydrascope::model {

/// LayerNorm (Ba et al. 2016, arXiv 1607.06450), keys `weight` and `bias`, or with rms_norm
/// x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich 2019, arXiv 1910.07467, equation 4), key
/// `weight`. The eps is the configuration's.
class NormLayerImpl : public torch::nn::Module {
 public:
  /// Over `width` features.
  NormLayerImpl(const VitConfig& config, std::int64_t width);
  /// Over embed_dim features.
  explicit NormLayerImpl(const VitConfig& config) : NormLayerImpl(config, config.embed_dim) {}
  /// x (..., width) -> (..., width)
  torch::Tensor forward(const torch::Tensor& x);

 private:
  double eps_;
  torch::Tensor weight_;
  torch::Tensor bias_;  ///< undefined with rms_norm
};
TORCH_MODULE(NormLayer);

}  // namespace hydrascope::model
