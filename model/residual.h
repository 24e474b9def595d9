// The ways in which the branches of a block join its stream, beside the sum.
//
// Residual::gru, the gates of GTrXL (Parisotto et al. 2020, arXiv 1910.06764, section 3.2), x the stream
// and y a branch; b = 2 at first, so that a block begins near the identity:
//   r = sigmoid(W_r y + U_r x);   z = sigmoid(W_z y + U_z x - b);   h = tanh(W_g y + U_g (r x))
//   x' = (1 - z) x + z h
//
// Residual::reversible (Gomez et al. 2017, arXiv 1707.04585, equation 6; for attention Kitaev et al.
// 2020, arXiv 2001.04451, equation 9), f the attention and g the MLP of a block. Both streams begin as
// the embedded tokens, and their mean is read behind the last block:
//   y1 = x1 + f(x2);   y2 = x2 + g(y1)      with the inverse   x2 = y2 - g(y1);   x1 = y1 - f(x2)
#pragma once

#include "model/activation_recomputation.h"
#include "model/linear_layer.h"

#include <torch/nn/module.h>

#include <cstdint>
#include <vector>

namespace hydrascope::model {

/// A gate in the place of a sum; keys `w.weight`, `u.weight` (3D, D: the rows of r, z and h) and
/// `bias` (D).
class GateImpl : public torch::nn::Module {
 public:
  explicit GateImpl(std::int64_t embed_dim, Initialisation initialisation = Initialisation::random);
  /// stream and branch (B, N, D) -> (B, N, D)
  torch::Tensor forward(const torch::Tensor& stream, const torch::Tensor& branch);

 private:
  torch::nn::Linear w_{nullptr};
  torch::nn::Linear u_{nullptr};
  torch::Tensor bias_;
};
TORCH_MODULE(Gate);

/// The branches of a reversible block, and all tensors that they compute with. Both times that a branch is
/// called it must compute the same.
struct ReversibleBlock {
  TensorFunction f;
  TensorFunction g;
  std::vector<at::Tensor> weights;
};

/// Two tensors (B, N, D).
struct Streams {
  at::Tensor first;
  at::Tensor second;
};

/// The streams behind all blocks. With gradient recording only these are kept: the backward pass finds
/// each block's input by the inverse and computes its branches again, so that memory does not grow with
/// the number of blocks. Gradients reach both streams and the weights; second derivatives are
/// refused with Error(failed).
Streams run_reversible(const std::vector<ReversibleBlock>& blocks, const Streams& streams);

/// The streams in front of all blocks, from the streams behind them, without gradient recording.
Streams invert(const std::vector<ReversibleBlock>& blocks, Streams streams);

}  // namespace hydrascope::model
