// One transformer block of a ViT (Dosovitskiy et al. 2021, arXiv 2010.11929, equations 2-3):
//   x = x + ls1(attn(norm1(x)));   x = x + ls2(mlp(norm2(x)))
// With post_norm the norms stand behind the branches (Liu et al. 2022, arXiv 2111.09883, section 3.2):
//   x = x + ls1(norm1(attn(x)));   x = x + ls2(norm2(mlp(x)))
// Residual::gru has gates in the place of the sums, and Residual::reversible two streams (residual.h).
#pragma once

#include "model/attention/attention.h"
#include "model/config/config.h"
#include "model/linear_layer.h"
#include "model/norm_layer.h"
#include "model/residual.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

namespace hydrascope::model {

/// Linear, activation, Linear; timm's keys `fc1`, `fc2`. With swiglu_mlp SwiGLU (Shazeer 2020,
/// arXiv 2002.05202): fc2(silu(g) * u), where fc1 gives the hidden features of g and then the
/// features of u. With scale_mlp a norm, `norm`, stands before fc2. Without proj_bias neither has a
/// bias.
class MlpImpl : public torch::nn::Module {
 public:
  explicit MlpImpl(const VitConfig& config, Initialisation initialisation = Initialisation::random);
  /// (B, N, D) -> (B, N, D)
  torch::Tensor forward(const torch::Tensor& x);

 private:
  bool gated_;
  Activation activation_;
  torch::nn::Linear fc1_{nullptr};
  NormLayer norm_{nullptr};
  torch::nn::Linear fc2_{nullptr};
};
TORCH_MODULE(Mlp);

/// Per-feature scale of a residual branch (Touvron et al. 2021, arXiv 2103.17239); key `gamma`.
class LayerScaleImpl : public torch::nn::Module {
 public:
  LayerScaleImpl(std::int64_t embed_dim, double init_value);
  torch::Tensor forward(const torch::Tensor& x) { return x * gamma_; }

 private:
  torch::Tensor gamma_;
};
TORCH_MODULE(LayerScale);

/// Factors (B, 1, 1) of a block's two branches; an undefined factor changes nothing.
struct BranchScales {
  torch::Tensor attention;
  torch::Tensor mlp;
};

/// Stochastic depth (Huang et al. 2016, arXiv 1603.09382): with probability `rate` an image's
/// branch is left out, else it is scaled by 1 / (1 - rate). x (B, N, D) gives the device, whose
/// default generator draws; rate 0 draws nothing. Throws Error(invalid_argument) for a rate outside
/// [0, 1).
BranchScales draw_branch_scales(double rate, const torch::Tensor& x);

/// timm's `Block`: keys `norm1`, `attn`, `ls1`, `norm2`, `mlp`, `ls2` (ls only with layer_scale),
/// `gate1`, `gate2` (with Residual::gru), and `pos_embed`, the table (1, patches, D) of
/// PosEmbed::layers, in all blocks but the first.
class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(const VitConfig& config, std::int64_t layer_index,
            Initialisation initialisation = Initialisation::random);
  /// x (B, N, D) -> (B, N, D). The MLP takes the tokens in `mlp_chunks` parts, whose hidden features the
  /// backward pass computes again: the outputs of one part in exact arithmetic, and a part's memory.
  torch::Tensor forward(const torch::Tensor& x, const TokenGrid& grid, Kernels kernels,
                        const BranchScales& scales = {}, std::int64_t mlp_chunks = 1);

  /// The first part of `forward`: the attention's input.
  [[nodiscard]] torch::Tensor normalise(const torch::Tensor& x) {
    return post_norm_ ? x : norm1_->forward(x);
  }
  /// The last part of `forward`: the output at some tokens, from x and the mixer's output (B, n,
  /// D).
  [[nodiscard]] torch::Tensor complete(const torch::Tensor& x, const torch::Tensor& mixed,
                                       const BranchScales& scales = {},
                                       std::int64_t mlp_chunks = 1);
  /// The terms of the two branches, before gates: f and g of a reversible block.
  [[nodiscard]] torch::Tensor attention_branch(const torch::Tensor& x, const TokenGrid& grid,
                                               Kernels kernels, const torch::Tensor& scale) {
    return scaled_attention(attn_->forward(normalise(x), grid, kernels), scale);
  }
  [[nodiscard]] torch::Tensor mlp_branch(const torch::Tensor& x, const torch::Tensor& scale,
                                         std::int64_t mlp_chunks);

  /// The table that VisionTransformerImpl::enter adds to the block's input; undefined without one.
  [[nodiscard]] const torch::Tensor& pos_embed() const noexcept { return pos_embed_; }
  [[nodiscard]] AttentionImpl& attention() noexcept { return *attn_; }

 private:
  /// The attention's output as it joins the stream.
  [[nodiscard]] torch::Tensor scaled_attention(torch::Tensor attended, const torch::Tensor& scale);
  [[nodiscard]] torch::Tensor add_branches(const torch::Tensor& x, const torch::Tensor& attended,
                                           const BranchScales& scales, std::int64_t mlp_chunks);

  bool post_norm_;
  torch::Tensor pos_embed_;
  NormLayer norm1_{nullptr};
  Attention attn_{nullptr};
  LayerScale ls1_{nullptr};
  Gate gate1_{nullptr};
  NormLayer norm2_{nullptr};
  Mlp mlp_{nullptr};
  LayerScale ls2_{nullptr};
  Gate gate2_{nullptr};
};
TORCH_MODULE(Block);

}  // namespace hydrascope::model
