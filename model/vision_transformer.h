// The vision transformer as LibTorch modules: the readable definition, trainable, with timm's
// state-dict names (timm.models.vision_transformer; DeiT: arXiv 2012.12877).
#pragma once

#include "model/block.h"
#include "model/class_branch.h"
#include "model/config/config.h"
#include "model/halting.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>

#include <functional>
#include <utility>
#include <vector>

namespace hydrascope::model {

/// Image (B, 3, H, W) -> patch tokens (B, rows * columns, D): a convolution whose stride is its
/// kernel.
class PatchEmbedImpl : public torch::nn::Module {
 public:
  explicit PatchEmbedImpl(const VitConfig& config);
  torch::Tensor forward(const torch::Tensor& images);

 private:
  torch::nn::Conv2d proj_{nullptr};
  NormLayer norm_{nullptr};  ///< with patch_norm
};
TORCH_MODULE(PatchEmbed);

/// Attention of one learned query over the patches, and an MLP behind it (timm's AttentionPoolLatent; see
/// Pooling::map): keys `latent`, `q`, `kv`, `proj`, `norm`, `mlp`.
///   y = proj(softmax(q(latent) k(x)^T / sqrt(d)) v(x));   y + mlp(norm(y))
class AttentionPoolImpl : public torch::nn::Module {
 public:
  explicit AttentionPoolImpl(const VitConfig& config);
  /// patches (B, N, D) -> (B, D)
  torch::Tensor forward(const torch::Tensor& tokens);

 private:
  std::int64_t num_heads_;
  torch::Tensor latent_;
  torch::nn::Linear q_{nullptr};
  torch::nn::Linear kv_{nullptr};
  torch::nn::Linear proj_{nullptr};
  NormLayer norm_{nullptr};
  Mlp mlp_{nullptr};
};
TORCH_MODULE(AttentionPool);

/// How one forward pass is run; never part of a checkpoint.
struct ForwardOptions {
  Kernels kernels = Kernels::automatic;
  /// May be null; becomes the tokens (B, N, D) that enter each block. Error(internal) for reversible blocks
  /// and for tokens that halt.
  std::vector<torch::Tensor>* block_inputs = nullptr;
  /// The rate of the last block's stochastic depth; it grows linearly from 0 at the first block and
  /// applies in training mode alone.
  double drop_path_rate = 0;
  /// Blocks keep their input and compute the rest again in the backward pass; reversible blocks do more
  /// anyway.
  bool recompute_blocks = false;
  std::int64_t mlp_chunks = 1;  ///< as in BlockImpl::forward
  /// May be null; becomes the cost of a model whose tokens halt.
  HaltingCost* halting = nullptr;
};

/// The classifiers' logits, (B, num_classes) each: no columns without a classifier.
struct HeadLogits {
  torch::Tensor of_class;
  torch::Tensor of_distillation;  ///< undefined unless the model is distilled
};

class VisionTransformerImpl : public torch::nn::Module {
 public:
  /// Weights are initialised as DeiT's: normal (0.02) for linears and embeddings, zero biases,
  /// torch's default for the patch convolution. Throws what `validate` throws, and Stopped between two blocks. With
  /// `Initialisation::for_loading` the blocks' linear layers are left as the memory is: a
  /// checkpoint must fill them, and until then they take none.
  explicit VisionTransformerImpl(VitConfig config,
                                 Initialisation initialisation = Initialisation::random);

  /// images (B, 3, H, W), normalised, H and W multiples of patch_size -> logits (B, num_classes).
  /// Distilled models return the mean of both heads.
  torch::Tensor forward(const torch::Tensor& images, const ForwardOptions& options = {});
  /// The tokens after the last norm (B, N, D), in the order of `grid_of`.
  torch::Tensor forward_features(const torch::Tensor& images, const ForwardOptions& options = {});
  /// The parts of `forward_features` before the blocks: the places of the images' tokens (throws
  /// Error(internal) for images that the model does not take),
  [[nodiscard]] TokenGrid grid_of(const torch::Tensor& images) const;
  /// and the tokens (B, N, D) that enter the first block.
  torch::Tensor embed(const torch::Tensor& images, const TokenGrid& grid);
  /// The previous block's tokens (B, N, D) plus the block's own table of positions and the signal of the
  /// step, if there are such.
  torch::Tensor enter(std::int64_t layer, const torch::Tensor& tokens, const TokenGrid& grid);
  /// The last norm, if it comes before pooling: tokens after the last block (B, N, D) -> same.
  /// Every token by itself.
  torch::Tensor forward_norm(const torch::Tensor& tokens);
  /// The input of the classifiers: tokens -> (B, D); the mean of both tokens of a distilled model.
  torch::Tensor forward_pool(const torch::Tensor& tokens);
  /// Pooling and classifier: tokens -> logits.
  torch::Tensor forward_head(const torch::Tensor& tokens);
  /// The same before distilled models take the mean: DeiT's losses treat the two apart.
  HeadLogits forward_heads(const torch::Tensor& tokens);

  /// The random values that `Initialisation::for_loading` leaves out.
  void initialise_block(std::int64_t layer);

  [[nodiscard]] const VitConfig& config() const noexcept { return config_; }
  [[nodiscard]] BlockImpl& block(std::int64_t layer) {
    return blocks_->at<BlockImpl>(static_cast<std::size_t>(config_.block_of(layer)));
  }
  /// The answer of the exit behind `layer`, from the tokens (B, N, D) that enter the next block.
  ExitOutput look_at_exit(std::int64_t layer, const torch::Tensor& tokens, const TokenGrid& grid,
                          Kernels kernels = Kernels::automatic);
  /// The exits have a branch.
  [[nodiscard]] ClassBranchImpl& class_branch() { return *exits_; }

 private:
  using BlockRun = std::function<torch::Tensor(BlockImpl& block, const torch::Tensor& x,
                                               const BranchScales& scales)>;
  [[nodiscard]] BranchScales scales_of(std::int64_t layer, const torch::Tensor& x,
                                       const ForwardOptions& options) const;
  /// One layer, which `run` computes.
  torch::Tensor forward_block(std::int64_t layer, const torch::Tensor& x,
                              const ForwardOptions& options, const BlockRun& run);
  torch::Tensor forward_streams(const torch::Tensor& x, const TokenGrid& grid,
                                const ForwardOptions& options);

  VitConfig config_;
  torch::Tensor cls_token_;
  torch::Tensor dist_token_;
  torch::Tensor reg_token_;
  torch::Tensor pos_embed_;
  PatchEmbed patch_embed_{nullptr};
  NormLayer norm_pre_{nullptr};
  torch::nn::ModuleList blocks_{nullptr};
  NormLayer norm_{nullptr};
  NormLayer fc_norm_{nullptr};
  AttentionPool attn_pool_{nullptr};
  torch::nn::Linear head_{nullptr};
  torch::nn::Linear head_dist_{nullptr};
  ClassBranch exits_{nullptr};
};
TORCH_MODULE(VisionTransformer);

/// Name and tensor of everything a checkpoint of this model holds, in module order: the one table
/// that loading, saving and `models info` compare with.
std::vector<std::pair<std::string, torch::Tensor>> named_tensors(
    const VisionTransformerImpl& model);

}  // namespace hydrascope::model
