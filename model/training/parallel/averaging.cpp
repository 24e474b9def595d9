#include "model/training/parallel/averaging.h"

#include "model/vision_transformer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

namespace hydrascope::model::training {

void share_weights(VisionTransformerImpl& model, ProcessGroup& group) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named_tensors(model)) tensors.push_back(tensor);
  group.broadcast(tensors);
}

void average_gradients(const std::vector<at::Tensor>& parameters, ProcessGroup& group) {
  if (group.world_size() == 1 || parameters.empty()) return;
  const at::NoGradGuard no_grad;
  // All gradients one after the other, and behind them whether each of them is there.
  std::vector<at::Tensor> pieces;
  std::vector<float> is_there;
  for (const at::Tensor& parameter : parameters) {
    const at::Tensor& gradient = parameter.grad();
    is_there.push_back(gradient.defined() ? 1 : 0);
    pieces.push_back((gradient.defined() ? gradient : at::zeros_like(parameter)).reshape({-1}));
  }
  pieces.push_back(at::tensor(is_there, parameters.front().options().dtype(at::kFloat)));
  at::Tensor all = at::cat(pieces);
  pieces.clear();
  group.sum({all});
  const at::Tensor ranks_with = all.slice(0, all.numel() - std::ssize(is_there)).cpu();
  all.div_(group.world_size());
  std::int64_t first = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& parameter = parameters[i];
    if (ranks_with[static_cast<std::int64_t>(i)].item<double>() > 0)
      parameter.mutable_grad() = all.narrow(0, first, parameter.numel())
                                     .view(parameter.sizes())
                                     .to(parameter.scalar_type());
    first += parameter.numel();
  }
}

}  // namespace hydrascope::model::training
