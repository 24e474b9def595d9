#include "model/explain/remembered_rows.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

namespace hydrascope::model::explain {

using at::Tensor;

FrameParts parts_of(TokenMixer& mixer, FrameMemory& frames, const MixerInputs& inputs,
                    const TokenGrid& grid, const Tensor& g) {
  const at::AutoGradMode with_gradient(true);
  // y = J v + y_0: the kept tokens alone mix to y_0, and the gradient at any v is J.
  const Tensor v = at::zeros_like(inputs.v).requires_grad_();
  const Tensor y =
      frames.look(mixer, inputs.q, inputs.k, v, grid, Kernels::automatic).narrow(1, 0, g.size(1));
  std::vector<Tensor> own;
  for (std::int64_t i = 0; i < g.size(0); ++i) {
    const bool retain = i + 1 < g.size(0);
    const Tensor d = torch::autograd::grad({y}, {v}, {g.narrow(0, i, 1)}, retain)[0];
    own.push_back((inputs.v * d).sum(-1));  // (1, H, N)
  }
  return {at::cat(own), split_heads(g * y.detach(), v.size(1)).sum({2, 3})};
}

}  // namespace hydrascope::model::explain
