// One model on all ranks: the same weights, and gradients that are averaged over the ranks.
#pragma once

#include "model/training/parallel/process_group.h"

#include <vector>

namespace hydrascope::model {
class VisionTransformerImpl;
}

namespace hydrascope::model::training {

/// Gives all ranks rank 0's values of everything in a checkpoint: also frozen parameters and
/// buffers, which an optimizer does not know. All ranks draw initial values from one seed, but
/// different processors may compute different ones. Call it before the weights are copied.
void share_weights(VisionTransformerImpl& model, ProcessGroup& group);

/// After the last backward pass of a step, which may have several: every gradient becomes the mean over
/// the ranks, by one sum of them all. A parameter that got no gradient on any rank stays without; a rank
/// without it counts as zeros. The parameters are the same in the same order on every rank.
void average_gradients(const std::vector<at::Tensor>& parameters, ProcessGroup& group);

}  // namespace hydrascope::model::training
