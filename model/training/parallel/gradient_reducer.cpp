#include "model/training/parallel/gradient_reducer.h"

#include "kernels/error.h"
#include "model/vision_transformer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::training {
namespace {

/// Two sums over a tensor's bits, the second weighted by position, so that swapped values show. The
/// sums may wrap around, on every rank alike.
at::Tensor checksum(const at::Tensor& tensor) {
  const at::Tensor bytes = tensor.detach().contiguous().reshape({-1}).view(at::kByte);
  const bool in_words = bytes.numel() % 4 == 0;
  const at::Tensor words = (in_words ? bytes.view(at::kInt) : bytes).to(at::kLong);
  const at::Tensor weights = at::arange(1, words.numel() + 1, words.options());
  return at::stack({words.sum(), (words * weights).sum()});
}

}  // namespace

void share_weights(VisionTransformerImpl& model, ProcessGroup& group) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named_tensors(model)) tensors.push_back(tensor);
  group.broadcast(tensors);
}

GradientReducer::GradientReducer(NamedTensors parameters, ProcessGroup& group)
    : parameters_(std::move(parameters)), group_(group) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values;
  for (const auto& [name, parameter] : parameters_) values.push_back(parameter);
  group_.broadcast(values);
}

void GradientReducer::average() {
  if (group_.world_size() == 1 || parameters_.empty()) return;
  const at::NoGradGuard no_grad;
  // All gradients one after the other, and behind them whether each of them is there.
  std::vector<at::Tensor> pieces;
  std::vector<float> is_there;
  for (const auto& [name, parameter] : parameters_) {
    const at::Tensor& gradient = parameter.grad();
    is_there.push_back(gradient.defined() ? 1 : 0);
    pieces.push_back((gradient.defined() ? gradient : at::zeros_like(parameter)).reshape({-1}));
  }
  pieces.push_back(at::tensor(is_there, parameters_.front().second.options().dtype(at::kFloat)));
  at::Tensor all = at::cat(pieces);
  pieces.clear();
  group_.sum({all});
  const at::Tensor ranks_with = all.slice(0, all.numel() - std::ssize(is_there)).cpu();
  all.div_(group_.world_size());
  std::int64_t first = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i].second;
    if (ranks_with[static_cast<std::int64_t>(i)].item<double>() > 0)
      parameter.mutable_grad() = all.narrow(0, first, parameter.numel())
                                     .view(parameter.sizes())
                                     .to(parameter.scalar_type());
    first += parameter.numel();
  }
}

void GradientReducer::check_equal() {
  if (group_.world_size() == 1 || parameters_.empty()) return;
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> sums;
  for (const auto& [name, parameter] : parameters_) sums.push_back(checksum(parameter).cpu());
  const at::Tensor mine = at::stack(sums);
  at::Tensor first = mine.clone();
  group_.broadcast({first});
  at::Tensor differs = mine.ne(first).any(1).to(at::kInt);
  group_.sum({differs});
  const std::int32_t* ranks = differs.const_data_ptr<std::int32_t>();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (ranks[i] == 0) continue;
    throw Error(ErrorCode::failed,
                "its values on " + std::to_string(ranks[i]) + " of " +
                    std::to_string(group_.world_size()) + " ranks are not those on rank 0",
                parameters_[i].first, "do all ranks run the same program with the same options?");
  }
}

}  // namespace hydrascope::model::training
