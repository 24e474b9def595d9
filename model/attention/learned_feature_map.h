// The one-layer network u = x W + b in front of a learned feature map (T2R, Hedgehog).
#pragma once

#include "model/attention/attention.h"
#include "model/attention/feature_map.h"
#include "model/attention/registry.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace hydrascope::model {

/// Shape of the network, in the checkpoint through the mechanism's options.
struct LearnedMapSettings {
  std::int64_t width = 0;  ///< d', the columns of W
  bool share_qk = false;   ///< one network for q and k
  bool per_head = true;    ///< W (H, d, d') or (d, d')
  bool bias = true;
  double noise = 0;  ///< standard deviation added to the identity at initialisation
};

/// `width`, `share_qk`, `per_head`, `bias`.
std::vector<MechanismOption> learned_map_options();
LearnedMapSettings learned_map_settings(const MechanismOptions& options, std::int64_t head_dim);
/// What it adds: feature_map.{q,k}.{weight,bias}, or feature_map.{weight,bias} when shared.
std::vector<MechanismParameter> learned_map_parameters(const std::string& initialisation);

/// A feature map that begins with the network. W starts as the identity: the first d' columns, or,
/// where d' > d, the identity and Kaiming-normal columns after it; b starts as 0.
class LearnedFeatureMap : public FeatureMap {
 public:
  LearnedFeatureMap(const TokenMixerArguments& arguments, const LearnedMapSettings& settings);
  [[nodiscard]] std::vector<at::Tensor> parameters() const override;

 protected:
  /// u (B, H, n, d') of x (B, H, n, d).
  [[nodiscard]] at::Tensor network(const at::Tensor& x, Side side) const;
  [[nodiscard]] HeadNetwork fused_network(Side side) const {
    const Network& chosen = side == Side::query ? query_ : key_;
    return {chosen.weight, chosen.bias, 1};
  }

 private:
  struct Network {
    at::Tensor weight;
    at::Tensor bias;
  };
  Network query_;
  Network key_;  ///< the same tensors when shared
  bool shared_;
};

/// Elements of the networks' tensors.
double learned_map_elements(const MixerSize& size, const LearnedMapSettings& settings);

/// Multiply-adds of both networks: 2 N D d'.
double learned_map_multiply_adds(const MixerSize& size, const LearnedMapSettings& settings);

}  // namespace hydrascope::model
