// Softmax attention in which a patch sees some of the patches:
//   y_i = sum_j a_ij v_j,    a_i. = softmax over j in S_i of q_i . k_j / sqrt(d)
//   S_i = all tokens                     for prefix tokens (class, distillation, registers)
//   S_i = prefix tokens and pattern(i)   for patches; i itself is in its pattern
//   S_i = prefix tokens and overview     for patches of the overview (token_grid.h)
// Patches are computed in groups that share their keys, groups of one shape as one batch of
// LibTorch's scaled_dot_product_attention; nothing of size N x N is made, forward or backward.
// If no group holds all keys of a patch, there are passes with disjoint keys, whose softmaxes are
// merged by their sums of exponentials:
//   y_i = sum_p e^(m_p - m) n_p / sum_p e^(m_p - m) z_p,    m = max_p m_p
// with the numerators n_p and denominators z_p of pass p, made with its own maximum m_p.
// Reference: masked rows of the whole map.
#pragma once

#include "model/attention/attention.h"
#include "model/registry/mechanisms.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace hydrascope::model {

/// G groups of n queries that see m keys, all patches in row-major order; on the CPU.
struct KeyGroups {
  at::Tensor queries;  ///< (G, n) int64
  at::Tensor keys;     ///< (G, m) int64
  at::Tensor sees;     ///< (n, m) bool, the same for all groups; undefined: all see all
};

/// Which patches a patch sees. Prefix tokens and the overview are the mixer's business.
class KeyPattern {
 public:
  KeyPattern() = default;
  KeyPattern(const KeyPattern&) = delete;
  KeyPattern& operator=(const KeyPattern&) = delete;
  virtual ~KeyPattern() = default;

  /// The definition: whether patches first .. first + count see each patch, (count, patches) bool
  /// on the CPU.
  [[nodiscard]] virtual at::Tensor rows(const TokenGrid& grid, std::int64_t first,
                                        std::int64_t count) const = 0;
  /// The same as groups to compute, in passes. In each pass every patch is a query of exactly one
  /// group; no two passes have a key of a patch in common. A patch may see nothing in later passes.
  [[nodiscard]] virtual std::vector<std::vector<KeyGroups>> passes(const TokenGrid& grid) const = 0;
  /// How many pairs of patches see each other.
  [[nodiscard]] virtual double num_pairs(const TokenGrid& grid) const = 0;
};

/// A pattern's passes plus the overview's patches, which see each other in the first pass.
std::vector<std::vector<KeyGroups>> image_passes(const KeyPattern& pattern, const TokenGrid& grid);

/// Consecutive heads that share a pattern.
struct HeadPattern {
  std::int64_t num_heads;
  std::unique_ptr<KeyPattern> pattern;
};

/// `prefix_rows=plain|scaled|learned`: prefix tokens alone see more keys in a larger picture, and
/// see it twice if there is an overview. scaled: their scores are multiplied by 1 + g max(0, ln N /
/// ln N_train - 1), and ln(patches / overview) + b is added to their scores with overview patches,
/// so that both copies of the picture weigh the same; g = 1, b = 0. learned: each head has g and b
/// as parameters.
enum class PrefixRows { plain, scaled, learned };

/// A pattern's layer: its size and its seeds may depend on nothing else.
struct SparseLayer {
  TokenGrid training_grid;
  std::int64_t num_heads;
  std::int64_t layer_index;
  std::int64_t depth;
};

using HeadPatterns = std::function<std::vector<HeadPattern>(const MechanismOptions& options,
                                                            const SparseLayer& layer)>;

/// `entry` with the flags of softmax over some of the tokens.
MechanismEntry over_some_tokens(MechanismEntry entry);

/// The mechanism of these patterns, with the option `prefix_rows`. `windows`: their size, if all
/// heads of a layer see the windows of SparseSoftmaxMixer; may be empty.
MechanismEntry sparse_mechanism(
    MechanismEntry entry, HeadPatterns heads,
    std::function<std::optional<GridExtent>(const MechanismOptions&, const SparseLayer&)> windows =
        {});

/// The scores s of prefix tokens become factor * s at some size, and factor * s + overview for keys of
/// the overview. (H) or (1), one value for all heads; undefined: they stay as they are.
struct PrefixWeighing {
  at::Tensor factor;
  at::Tensor overview;  ///< undefined without an overview
};

class SparseSoftmaxMixer final : public TokenMixer {
 public:
  /// `heads`: patterns in the heads' order. `windows`: their size if all heads see windows, which
  /// are the balanced intervals (balanced_intervals.h) of both axes.
  SparseSoftmaxMixer(std::vector<HeadPattern> heads, const TokenMixerArguments& arguments,
                     PrefixRows prefix_rows, std::optional<GridExtent> windows = std::nullopt);
  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const TokenGrid& grid, Kernels kernels) override;
  torch::Tensor attention_rows(const torch::Tensor& q, const torch::Tensor& k,
                               const TokenGrid& grid, std::int64_t first,
                               std::int64_t count) override;
  [[nodiscard]] std::unique_ptr<KernelForm> kernel_form() const override;
  [[nodiscard]] const PositionRule* position() const override { return position_.get(); }

 private:
  friend class SparseForm;
  [[nodiscard]] PrefixWeighing prefix_weighing(const TokenGrid& grid) const;
  /// ln N / ln N_train - 1, at least 0; 0 for plain rows.
  [[nodiscard]] double excess(const TokenGrid& grid) const;
  /// Scores of prefix rows (B, H, n, N), weighed as `prefix_rows` says.
  [[nodiscard]] at::Tensor weighed(const at::Tensor& scores, const TokenGrid& grid) const;
  /// Whether tokens first .. first + count see each token: (H or 1, count, N) bool on the CPU.
  [[nodiscard]] at::Tensor sees(const TokenGrid& grid, std::int64_t first,
                                std::int64_t count) const;

  std::vector<HeadPattern> heads_;
  std::optional<GridExtent> windows_;
  TokenGrid training_;
  bool scales_prefix_rows_;
  std::shared_ptr<const PositionRule> position_;
  at::Tensor gain_;      ///< g of each head (H), if it is learned
  at::Tensor overview_;  ///< b of each head (H), if it is learned
};

/// Whether tokens first .. first + count see each token by a pattern: (count, N) bool on the CPU.
at::Tensor seen_rows(const KeyPattern& pattern, const TokenGrid& grid, std::int64_t first,
                     std::int64_t count);

/// The patches' outputs by groups: q, k, v (B, N, h, .), heads from `first_head` on, q and k as
/// `rule` turns them -> (B, image tokens, h, width of v). The first `num_shared` tokens are seen by
/// all; a negative key counts from the first patch back, into the prefix tokens. k and v may have
/// rows behind the tokens' rows; these have no place in the grid.
at::Tensor mix_patches(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const TokenGrid& grid, std::int64_t num_shared,
                       const std::vector<std::vector<KeyGroups>>& passes,
                       const PositionRule* rule = nullptr, std::int64_t first_head = 0);

/// 4 D FLOPs per pair of tokens; 4 N D elements moved when fused.
MixerCost sparse_cost(const MixerSize& size, const std::vector<HeadPattern>& heads);

}  // namespace hydrascope::model
