#include "model/training/parallel/shared_weights.h"

#include "model/vision_transformer.h"

#include <ATen/core/grad_mode.h>

namespace hydrascope::model::training {

void share_weights(VisionTransformerImpl& model, ProcessGroup& group) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named_tensors(model)) tensors.push_back(tensor);
  group.broadcast(tensors);
}

}  // namespace hydrascope::model::training
