// One model on all ranks.
#pragma once

#include "model/training/parallel/process_group.h"

namespace hydrascope::model {
class VisionTransformerImpl;
}

namespace hydrascope::model::training {

/// Rank 0's values of all that a checkpoint holds replace everybody's: what is frozen or no
/// parameter too, which GradientReducer knows nothing of. Initial values are drawn from one seed on
/// all ranks, but not by one processor. Call it before something copies the weights.
void share_weights(VisionTransformerImpl& model, ProcessGroup& group);

}  // namespace hydrascope::model::training
