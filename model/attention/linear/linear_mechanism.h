// Mechanisms that are nothing but a feature map: linear attention (linear_attention.h) does the rest.
#pragma once

#include "model/attention/attention.h"
#include "model/attention/linear/linear_attention.h"
#include "model/registry/mechanisms.h"

#include <functional>

namespace hydrascope::model {

/// The parts of such a mechanism's entry that other entries do not have.
struct LinearParts {
  std::function<FeatureMapPtr(const TokenMixerArguments&)> map = {};
  Normaliser normaliser = {};
  const NumberOption* eps =
      nullptr;  ///< the option that replaces the normaliser's, if there is one
  /// F of a head, by default its d.
  std::function<double(const MixerSize&, const MechanismOptions&)> feature_dim = {};
  /// Multiply-adds of the map for q and k together; by default none that count.
  std::function<double(const MixerSize&, const MechanismOptions&)> map_multiply_adds = {};
};

/// The entry with the mixer, its cost and the option of a local term (local_term.h). The normaliser
/// tells the sign of the map's weights: an eps is for non-negative weights, a clamp for signed
/// ones. Without a division the rows of the map have no fixed sum.
MechanismEntry linear_mechanism(MechanismEntry entry, LinearParts parts);

/// A mechanism whose map applies `phi` >= 0 to every element.
MechanismEntry elementwise_mechanism(MechanismEntry entry, at::Tensor (*phi)(const at::Tensor&));
/// The same for a map that the kernels know.
MechanismEntry elementwise_mechanism(MechanismEntry entry,
                                     kernels::linear_attention::Feature feature);

/// 2 N D F (S) + 2 N D F (y) + the map's multiply-adds, as FLOPs; 4 N D s bytes and the state.
MixerCost linear_cost(const MixerSize& size, double feature_dim, double map_multiply_adds);

/// N D, the elements of one of q, k and v.
double token_elements(const MixerSize& size);

}  // namespace hydrascope::model
