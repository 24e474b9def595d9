// Multi-head attention of a block: qkv projection, token mixer, output projection. The mixer comes
// from the registry; everything else is the same for all mechanisms.
#pragma once

#include "model/attention/compute_type.h"
#include "model/attention/kernel_form.h"
#include "model/attention/positions/position_rule.h"
#include "model/attention/token_grid.h"
#include "model/config/config.h"
#include "model/linear_layer.h"
#include "model/norm_layer.h"
#include "model/ops/token_rows.h"
#include "model/registry/attention_spec.h"
#include "model/registry/mechanisms.h"
#include "model/registry/memories.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace hydrascope::model {

/// The intermediate results of a layer.
struct AttentionTrace {
  torch::Tensor q, k, v;  ///< (B, H, N, d), as the mixer got them
  torch::Tensor output;   ///< (B, N, D), before proj
};

/// The arguments that a mixer is built with.
struct TokenMixerArguments {
  std::int64_t num_heads = 1;
  std::int64_t head_dim = 1;
  std::int64_t layer_index = 0;
  std::int64_t depth = 1;
  TokenGrid training_grid;  ///< the checkpoint was trained at it
  MechanismOptions options;
  torch::nn::Module& owner;                                ///< the layer's `attn`
  std::shared_ptr<const PositionRule> position = nullptr;  ///< null where the mechanism takes none
  PosInterp pos_interp = PosInterp::timm;                  ///< a rule's: places at other grids
  /// Registers `name` ("feature_map.weight") below `attn.`; a buffer is saved but not trained.
  [[nodiscard]] torch::Tensor add_parameter(const std::string& name, torch::Tensor value) const;
  [[nodiscard]] torch::Tensor add_buffer(const std::string& name, torch::Tensor value) const;
};

/// The sums over the tokens that queries read, values times the exponential of `logarithm`.
struct MixerState {
  torch::Tensor values;     ///< (B, ...)
  torch::Tensor logarithm;  ///< broadcasts over `values`; undefined: 0
};

/// Tokens of other pictures, which queries see beside their own.
struct OtherTokens {
  torch::Tensor k, v;    ///< (B, H, M, d)
  torch::Tensor offset;  ///< (M), added to their scores; undefined: 0
};

/// Mixes tokens. `q`, `k`, `v` are (B, H, N, d) of one dtype; half types are computed in float32.
class TokenMixer {
 public:
  TokenMixer() = default;
  TokenMixer(const TokenMixer&) = delete;
  TokenMixer& operator=(const TokenMixer&) = delete;
  virtual ~TokenMixer() = default;

  /// (B, N, D). `Kernels::reference` is the equation in plain differentiable operations.
  virtual torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const TokenGrid& grid, Kernels kernels) = 0;
  /// Rows first .. first + count of the attention map: (B, H, count, N) with
  /// y_i = sum_j A_ij v_j, in time and memory O(count N). Undefined if the entry has no map.
  /// Here and in the other functions of rows, `q` may end after the last one unless
  /// `needs_all_queries`.
  virtual torch::Tensor attention_rows(const torch::Tensor& q, const torch::Tensor& k,
                                       const TokenGrid& grid, std::int64_t first,
                                       std::int64_t count) = 0;
  /// Rows first .. first + count of `mix`, (B, count, D), by differentiable operations.
  virtual torch::Tensor mix_rows(const torch::Tensor& q, const torch::Tensor& k,
                                 const torch::Tensor& v, const TokenGrid& grid, std::int64_t first,
                                 std::int64_t count);
  /// `mix` where `change` sees, and may change, the sums over the tokens before queries read them:
  /// with MechanismEntry::has_state. Here and in `mix_beside`, `q` may be of the first tokens only, unless
  /// `needs_all_queries`.
  virtual torch::Tensor mix_state(const torch::Tensor& q, const torch::Tensor& k,
                                  const torch::Tensor& v, const TokenGrid& grid,
                                  const std::function<void(MixerState&)>& change);
  /// `mix` of queries that see `others` too: with MechanismEntry::takes_other_tokens, and without a
  /// position rule.
  virtual torch::Tensor mix_beside(const torch::Tensor& q, const torch::Tensor& k,
                                   const torch::Tensor& v, const TokenGrid& grid,
                                   const OtherTokens& others);
  /// (G, H, count, N): token j's share of g_i . y_i, A_ij (g_i . v_j) of each head. Without a map
  /// the shares of the head's features are summed, each feature having weights of its own. `g` is
  /// (G, count, D), a gradient at these rows of the output: one per image, or any number for one.
  virtual torch::Tensor weighted_rows(const torch::Tensor& q, const torch::Tensor& k,
                                      const torch::Tensor& v, const torch::Tensor& g,
                                      const TokenGrid& grid, std::int64_t first,
                                      std::int64_t count);
  /// Whether a row depends on other queries than its own (landmarks, means over the tokens).
  [[nodiscard]] virtual bool needs_all_queries() const { return false; }
  /// The kernels that compute the same as `mix`; null without them.
  [[nodiscard]] virtual std::unique_ptr<KernelForm> kernel_form() const { return nullptr; }
  /// The layer's addend to the training loss, a number that has a gradient; undefined: none.
  [[nodiscard]] virtual torch::Tensor penalty() const { return {}; }
  /// The rule that changes its scores by the places of tokens; null without one.
  [[nodiscard]] virtual const PositionRule* position() const { return nullptr; }
  /// The mixer without its local term.
  [[nodiscard]] virtual TokenMixer& global_part() { return *this; }

 protected:
  /// `mix` by `mix_rows`, in pieces.
  torch::Tensor mix_by_rows(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const TokenGrid& grid);
};

class RememberingMixer;

/// g_i . v_j of each head: (G, n, D) and (B, H, N, d) -> (G, H, n, N), where G is B or B is one.
torch::Tensor head_products(const torch::Tensor& g, const torch::Tensor& v);
/// timm's `Attention`: keys `qkv`, `proj`, with scale_attn `norm`, and the mixer's own.
class AttentionImpl : public torch::nn::Module {
 public:
  AttentionImpl(const VitConfig& config, std::int64_t layer_index,
                Initialisation initialisation = Initialisation::random);
  /// x (B, N, D) -> (B, N, D)
  torch::Tensor forward(const torch::Tensor& x, const TokenGrid& grid, Kernels kernels) {
    return project_out(trace(x, grid, kernels).output);
  }
  /// All but the last part of `forward`.
  [[nodiscard]] AttentionTrace trace(const torch::Tensor& x, const TokenGrid& grid,
                                     Kernels kernels);
  /// The mixer's output (B, count, D) at the first `count` tokens of x. Fewer than all are mixed by
  /// rows, and other queries are computed only if the mixer needs them.
  [[nodiscard]] torch::Tensor mix(const torch::Tensor& x, const TokenGrid& grid,
                                  std::int64_t count);

  /// The first part of `forward`: x (B, N, D) -> q, k, v (B, H, N, d) as the mixer gets them.
  struct Projected {
    torch::Tensor q, k, v;
  };
  [[nodiscard]] Projected project(const torch::Tensor& x) { return project(x, x.size(1)); }
  [[nodiscard]] Projected project(const torch::Tensor& x, std::int64_t first_queries);
  enum class Part : std::int64_t { query, key, value };
  [[nodiscard]] torch::Tensor project(const torch::Tensor& x, Part part);
  /// The last part: the mixer's output (B, n, D) -> (B, n, D).
  [[nodiscard]] torch::Tensor project_out(const torch::Tensor& mixed) {
    return proj_->forward(norm_.is_empty() ? mixed : norm_->forward(mixed));
  }

  [[nodiscard]] TokenMixer& mixer() noexcept { return *mixer_; }
  /// From now on pictures are frames, one a call, and the mixer has that memory of those before; once.
  void remember(const MemorySpec& memory);
  /// The next frame begins a video; nothing without a memory.
  void forget();
  /// Whether the mixer's queries are the layer's input instead of a projection of it.
  [[nodiscard]] bool query_is_input() const noexcept { return query_is_input_; }

 private:
  std::int64_t layer_index_;
  std::int64_t num_heads_;
  bool query_is_input_;
  torch::nn::Linear qkv_{nullptr};
  NormLayer norm_{nullptr};  ///< with scale_attn
  torch::nn::Linear proj_{nullptr};
  std::unique_ptr<TokenMixer> mixer_;
  RememberingMixer* remembering_ = nullptr;  ///< the mixer, if it has a memory
};
TORCH_MODULE(Attention);

}  // namespace hydrascope::model
