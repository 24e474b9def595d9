// One model on all ranks: its weights, and its gradients, averaged while the backward pass still runs (Li et al. 2020, PyTorch
// Distributed, arXiv 2006.15704): fixed buckets, filled as gradients become ready, summed
// asynchronously.
#pragma once

#include "model/training/optimizer.h"
#include "model/training/parallel/process_group.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace hydrascope::model {
class VisionTransformerImpl;
}

namespace hydrascope::model::training {

/// Rank 0's values of all that a checkpoint holds replace everybody's: what is frozen or no
/// parameter too, which GradientReducer knows nothing of. Initial values are drawn from one seed on
/// all ranks, but not by one processor. Call it before something copies the weights.
void share_weights(VisionTransformerImpl& model, ProcessGroup& group);

class GradientReducer {
 public:
  static constexpr std::int64_t kBucketBytes = std::int64_t{25} << 20;

  /// Broadcasts rank 0's values first. With one rank it does nothing. The parameters, the same ones
  /// in the same order on every rank, need gradients; until the end of this object they have its
  /// hook and can have no other reducer.
  GradientReducer(NamedTensors parameters, ProcessGroup& group,
                  std::int64_t bucket_bytes = kBucketBytes);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Before a backward pass; without `exchange` gradients only accumulate here (no_sync). With it
  /// each parameter may be reached once until `finish`.
  void begin(bool exchange);
  /// After it: waits, and every gradient is the mean over the ranks. A parameter that got no
  /// gradient on any rank stays without.
  void finish();
  /// Error(failed), on every rank, naming the first parameter whose bits differ between ranks.
  void check_equal();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::model::training
