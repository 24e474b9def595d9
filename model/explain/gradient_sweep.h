// The gradient of logits at all tokens, block after block from the last to the first. Each block
// runs again from its input tokens, and its stored activations are dropped before the next block:
// memory is one block's attention and a few rows for every token.
#pragma once

#include "model/attention/token_grid.h"
#include "model/explain/mixer_inputs.h"
#include "model/explain/readout.h"
#include "model/vision_transformer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace hydrascope::model::explain {

/// The gradients of one logit in one block.
struct BlockGradient {
  at::Tensor mixed;       ///< dy (1, N, D), at the mixer's output; 0 where a token is not read
  at::Tensor values;      ///< dv (1, H, N, d)
  at::Tensor normalised;  ///< at norm1's output (1, N, D)
};

struct SweptBlock {
  MixerInputs inputs;
  std::vector<BlockGradient> of_class;
};

class GradientSweep {
 public:
  /// `before_step` is the Explainer's.
  GradientSweep(VisionTransformerImpl& model, const TokenGrid& grid,
                std::span<const std::int64_t> classes, std::function<void()> before_step = {});

  /// The wanted part of a block's gradient; each implies the parts before it. `mixed` and `values`
  /// end the sweep.
  enum class Depth { mixed, values, input };
  /// Steps to the block before the last call's block, in the first call to the model's last block.
  /// `tokens` (1, N, D) entered it.
  SweptBlock step(const at::Tensor& tokens, Depth depth);

 private:
  void begin_step() const {
    if (before_step_) before_step_();
  }
  void start(BlockImpl& block, const at::Tensor& tokens, const at::Tensor& mixed);
  /// d_output_ -> the gradients at both summands of `complete`.
  void through_branches(BlockImpl& block, const at::Tensor& tokens, const at::Tensor& mixed,
                        std::vector<BlockGradient>& gradients);
  /// d(q, k, v) -> the gradient at norm1's output, and at its input on top of the residual's.
  void through_projection(BlockImpl& block, const at::Tensor& tokens,
                          const std::vector<MixerInputs>& d_inputs,
                          std::vector<BlockGradient>& gradients);

  VisionTransformerImpl& model_;
  TokenGrid grid_;
  Readout readout_;
  std::vector<std::int64_t> classes_;
  std::function<void()> before_step_;
  std::int64_t layer_;                ///< the next step's layer
  std::vector<at::Tensor> d_output_;  ///< (1, n, D) per class, for the first n tokens
};

}  // namespace hydrascope::model::explain
