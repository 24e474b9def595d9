// Multi-head attention of a block: qkv projection, token mixer, output projection. The mixer is
// what the registry serves; everything else is the same for all mechanisms.
#pragma once

#include "model/attention/attention_spec.h"
#include "model/config.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace hydrascope::model {

/// Where the tokens lie: `num_prefix` tokens, then `rows` x `columns` patches in row-major order.
struct TokenGrid {
  std::int64_t num_prefix = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  [[nodiscard]] std::int64_t num_tokens() const { return num_prefix + rows * columns; }
};

/// What a layer reveals when asked; asking never changes its output, not by one bit.
struct AttentionTrace {
  bool want_map = false;  ///< in: compute `map` too
  std::int64_t layer_index = -1;
  torch::Tensor q, k, v;  ///< (B, H, N, d), as the mixer got them
  torch::Tensor output;   ///< (B, N, D), before proj
  torch::Tensor map;      ///< (B, H, N, N) when `want_map` and the mechanism has one
};

/// What a mixer gets when it is built. Parameters that it adds are registered in `owner`, so their
/// names hang below `attn.` in the state dict.
struct TokenMixerArguments {
  std::int64_t num_heads = 1;
  std::int64_t head_dim = 1;
  std::int64_t layer_index = 0;
  std::int64_t depth = 1;
  TokenGrid training_grid;  ///< what the checkpoint was trained at
  const AttentionSpec& spec;
  torch::nn::Module& owner;
};

/// Mixes tokens. `q`, `k`, `v` are (B, H, N, d); returns (B, N, D).
class TokenMixer {
 public:
  TokenMixer() = default;
  TokenMixer(const TokenMixer&) = delete;
  TokenMixer& operator=(const TokenMixer&) = delete;
  virtual ~TokenMixer() = default;
  virtual torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const TokenGrid& grid, Kernels kernels) = 0;
  /// The explicit map (B, H, N, N), or an undefined tensor where a map is meaningless.
  virtual torch::Tensor attention_map(const torch::Tensor& q, const torch::Tensor& k,
                                      const TokenGrid& grid) = 0;
};

/// (B, H, N, d) -> (B, N, H * d).
torch::Tensor merge_heads(const torch::Tensor& x);

/// timm's `Attention`: keys `qkv.{weight,bias}`, `proj.{weight,bias}` and what the mixer adds.
class AttentionImpl : public torch::nn::Module {
 public:
  AttentionImpl(const VitConfig& config, std::int64_t layer_index);
  /// x (B, N, D) -> (B, N, D). `trace` may be null.
  torch::Tensor forward(const torch::Tensor& x, const TokenGrid& grid, Kernels kernels,
                        AttentionTrace* trace);

 private:
  std::int64_t layer_index_;
  std::int64_t num_heads_;
  torch::nn::Linear qkv_{nullptr};
  torch::nn::Linear proj_{nullptr};
  std::unique_ptr<TokenMixer> mixer_;
};
TORCH_MODULE(Attention);

}  // namespace hydrascope::model
