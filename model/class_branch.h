// The exits of a model whose pictures may leave early. Behind a layer l of VitConfig::exits the class
// token alone passes through copies of the blocks l + 1 .. depth - 1, which see the other tokens as layer l
// left them, and through a copy of the classifier:
//   c = c + proj(softmax(q(n(c)) k(n(X))^T / sqrt(d)) v(n(X)));   c = c + mlp(norm2(c))
// with X the tokens of layer l, c in the place of the class token, and n = norm1. All exits share one
// branch: an exit begins at its own block. Class attention is CaiT's (Touvron et al. 2021, arXiv
// 2103.17239, section 3.2); exits are as in the Depth-Adaptive Transformer (Elbayad et al. 2020, arXiv
// 1910.10073) and CALM (Schuster et al. 2022, arXiv 2207.07061).
#pragma once

#include "model/block.h"
#include "model/config/config.h"
#include "model/norm_layer.h"
#include "model/weight_table.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/container/moduledict.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>

namespace hydrascope::model {

/// The projections of a class block; keys `qkv`, `proj`.
class ClassAttentionImpl : public torch::nn::Module {
 public:
  explicit ClassAttentionImpl(const VitConfig& config);
  /// normalised (B, N, D), the class token first -> its row of the output (B, D). Softmax whatever the
  /// trunk's mechanism, without a position rule.
  torch::Tensor forward(const torch::Tensor& normalised);

 private:
  std::int64_t num_heads_;
  torch::nn::Linear qkv_{nullptr};
  torch::nn::Linear proj_{nullptr};
};
TORCH_MODULE(ClassAttention);

/// One block for the class token; keys `norm1`, `attn`, `norm2`, `mlp` as in a block of the trunk.
class ClassBlockImpl : public torch::nn::Module {
 public:
  explicit ClassBlockImpl(const VitConfig& config);
  /// c (B, D) and the other tokens (B, N - 1, D) -> (B, D)
  torch::Tensor forward(const torch::Tensor& c, const torch::Tensor& others);

 private:
  NormLayer norm1_{nullptr};
  ClassAttention attn_{nullptr};
  NormLayer norm2_{nullptr};
  Mlp mlp_{nullptr};
};
TORCH_MODULE(ClassBlock);

/// An exit's findings about a batch.
struct ExitOutput {
  torch::Tensor logits;    ///< (B, num_classes)
  torch::Tensor features;  ///< (B, D): the classifier's input
  torch::Tensor stop;      ///< (B): w . features + b of ExitRule::learned
};

/// Keys `blocks.K` for the layers K behind the first exit, `norm`, `head`, `stop`.
class ClassBranchImpl : public torch::nn::Module {
 public:
  explicit ClassBranchImpl(const VitConfig& config);
  /// The exit behind `layer`: the tokens (B, N, D) that enter the next block. No gradient of `stop`
  /// reaches the features.
  ExitOutput forward(const torch::Tensor& tokens, std::int64_t layer);

 private:
  std::int64_t depth_;
  torch::nn::ModuleDict blocks_;
  NormLayer norm_{nullptr};
  torch::nn::Linear head_{nullptr};
  torch::nn::Linear stop_{nullptr};
};
TORCH_MODULE(ClassBranch);

/// The trunk's own blocks, last norm and classifier as the branch's first weights: LayerScale taken in,
/// `stop` zero.
void start_from_trunk(ClassBranchImpl& branch, const WeightTable& trunk);

}  // namespace hydrascope::model
