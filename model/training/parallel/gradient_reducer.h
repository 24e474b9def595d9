// One model on all ranks: the same weights, and gradients that are averaged over the ranks.
#pragma once

#include "model/training/optimizer.h"
#include "model/training/parallel/process_group.h"

namespace hydrascope::model {
class VisionTransformerImpl;
}

namespace hydrascope::model::training {

/// Gives all ranks rank 0's values of everything in a checkpoint: also frozen parameters and
/// buffers, which GradientReducer does not know. All ranks draw initial values from one seed, but
/// different processors may compute different ones. Call it before the weights are copied.
void share_weights(VisionTransformerImpl& model, ProcessGroup& group);

class GradientReducer {
 public:
  /// Broadcasts rank 0's values first. With one rank it does nothing. The parameters are the same
  /// in the same order on every rank.
  GradientReducer(NamedTensors parameters, ProcessGroup& group);

  /// After the last backward pass of a step: every gradient becomes the mean over the ranks. A
  /// parameter that got no gradient on any rank stays without; a rank without it counts as zeros.
  void average();
  /// Error(failed), on every rank, naming the first parameter whose bits differ between ranks.
  void check_equal();

 private:
  NamedTensors parameters_;
  ProcessGroup& group_;
};

}  // namespace hydrascope::model::training
