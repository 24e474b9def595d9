// The readout's row of a product of attention maps, from the last layer to the first: a row r (N)
// is multiplied by one layer's map at a time, r <- r^T At, and no map is ever stored.
#pragma once

#include "model/attention/token_grid.h"
#include "model/explain/mixer_inputs.h"
#include "model/registry/map_methods.h"
#include "model/registry/mechanisms.h"

#include <ATen/core/Tensor.h>

namespace hydrascope::model::explain {

/// r^T A of each head, (H, N). Mixing is linear in v, so for a mechanism without N x N weights this
/// is the vector-Jacobian product of the mixing in v, with one feature per head; softmax's rows are
/// computed a few at a time, O(N) memory in both cases.
at::Tensor pull_through_map(const MechanismEntry& mechanism, TokenMixer& mixer,
                            const MixerInputs& inputs, const TokenGrid& grid, const at::Tensor& r);

/// r^T C (N) of C_ij = (1 + cos(q_i, k_j)) / sum_t (1 + cos(q_i, k_t)), whole tokens' cosines.
at::Tensor pull_through_cosine(const MixerInputs& inputs, const at::Tensor& r);

/// The factor At of one layer in `rollout`.
at::Tensor roll(const MechanismEntry& mechanism, TokenMixer& mixer, const MixerInputs& inputs,
                const TokenGrid& grid, MaplessLayers mapless, const at::Tensor& r);
/// The treatment of such a layer by `roll`: "softmax map", "hydra skipped".
std::string rule_of_roll(const MechanismEntry& mechanism, MaplessLayers mapless);

/// The factor of one layer in `grad_rollout` or `attn_gradcam`; g = dy (1, N, D). Time O(N^2 D),
/// memory O(N).
at::Tensor roll_gradient(Method method, TokenMixer& mixer, const MixerInputs& inputs,
                         const at::Tensor& g, const TokenGrid& grid, const at::Tensor& r);
std::string rule_of_roll_gradient(const MechanismEntry& mechanism);

}  // namespace hydrascope::model::explain
