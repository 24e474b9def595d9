// Learned feature maps (T2R, Hedgehog): a one-layer network u = x W + b and a formula of u that the
// kernels know.
#pragma once

#include "model/attention/linear/linear_mechanism.h"

#include <functional>

namespace hydrascope::model {

/// The mechanism with the options `width`, `share_qk`, `per_head` and `bias` behind `entry`'s own,
/// and the parameters feature_map.{q,k}.{weight,bias}, or feature_map.{weight,bias} when shared. W
/// starts as the first d' columns of the identity (columns beyond d: Kaiming-normal) plus normal
/// noise of that standard deviation; b starts as 0.
MechanismEntry learned_mechanism(
    MechanismEntry entry, double noise,
    std::function<kernels::linear_attention::Feature(const MechanismOptions&)> feature);

}  // namespace hydrascope::model
