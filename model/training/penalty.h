// Terms of a loss for attention's own parameters, such as adaptive_span's spans.
#pragma once

#include "model/training/training_task.h"
#include "model/vision_transformer.h"

#include <cstdint>

namespace hydrascope::model::training {

/// Adds the penalties of the layers from `first_layer` on (`TokenMixer::penalty`) to the loss, and
/// their sum to its parts as "penalty"; adds nothing if no layer has one.
inline void add_penalty(VisionTransformerImpl& model, StepLoss& cost,
                        std::int64_t first_layer = 0) {
  at::Tensor sum;
  for (std::int64_t layer = first_layer; layer < model.config().num_blocks(); ++layer) {
    const at::Tensor penalty = model.block(layer).attention().mixer().penalty();
    if (penalty.defined()) sum = sum.defined() ? sum + penalty : penalty;
  }
  if (!sum.defined()) return;
  cost.loss = cost.loss + sum;
  cost.parts["penalty"] = sum.detach();
}

}  // namespace hydrascope::model::training
