// Adaptive computation time of tokens (Graves 2016, arXiv 1603.08983) as A-ViT has it for pictures (Yin
// et al. 2022, arXiv 2112.07658, section 3). Behind layer l a token x has the score
//   p_l = sigmoid(gate_scale x_0 - gate_center),   1 behind the last layer,
// of its first feature. It leaves behind the first layer N at which its scores reach 1 - kHaltingRest; the
// layer's share is then the remainder r = 1 - p_1 - .. - p_(N-1). No other token sees it from there on. The
// answer is read from the class token's mean over the layers, c = sum_(l < N) p_l c_l + r c_N, so that a
// picture is done when its class token leaves. The ponder cost of a token is N + r.
#pragma once

#include "model/config/config.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace hydrascope::model {

class BlockImpl;

inline constexpr double kHaltingRest = 0.01;

/// The costs of a batch's tokens.
struct HaltingCost {
  at::Tensor layers;  ///< (B, N): the layers that computed each token, 1 to depth
  at::Tensor ponder;  ///< mean of N + r over the tokens, with its gradient; undefined unless masked
};

/// One layer: x (B, n, D) -> (B, n, D). `visible` is bool (B, 1, n, n), true where a token (row) sees
/// another one; undefined if all see all.
using HaltingLayer =
    std::function<at::Tensor(std::int64_t layer, const at::Tensor& x, const at::Tensor& visible)>;

/// The tokens (B, N, D) behind all layers: the class token's mean, and the others as they left. Learning
/// computes all tokens and hides those that have left from the others (`masked`), which has a gradient by
/// every score; else each picture by itself goes on with the tokens that stay, and computes no others.
at::Tensor run_halting(const VitConfig& config, const at::Tensor& tokens, const HaltingLayer& layer,
                       bool masked, HaltingCost& cost);

/// The output (B, n, D) of a block's softmax before its projection, for the block's input x (B, n, D) of any
/// n tokens; `visible` as in HaltingLayer.
at::Tensor mix_visible(BlockImpl& block, const at::Tensor& x, const at::Tensor& visible);

}  // namespace hydrascope::model
