// Softmax attention in which a patch sees some of the patches:
//   y_i = sum_j a_ij v_j,    a_i. = softmax over j in S_i of q_i . k_j / sqrt(d)
//   S_i = all tokens                     for prefix tokens (class, distillation, registers)
//   S_i = prefix tokens and pattern(i)   for patches; i itself is in its pattern
// Patches are computed in groups that share their keys, groups of one shape as one batch of
// LibTorch's scaled_dot_product_attention; nothing of size N x N is made, forward or backward.
// Reference: masked rows of the whole map.
#pragma once

#include "model/attention/attention.h"
#include "model/attention/registry.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace hydrascope::model {

/// G groups of n queries that see m keys, all patches in row-major order; on the CPU.
struct KeyGroups {
  at::Tensor queries;  ///< (G, n) int64
  at::Tensor keys;     ///< (G, m) int64
  at::Tensor sees;     ///< (n, m) bool, the same for all groups; undefined: all see all
};

/// Which patches a patch sees. Prefix tokens are the mixer's business.
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
  /// The same as work: every patch is a query of exactly one group.
  [[nodiscard]] virtual std::vector<KeyGroups> groups(const TokenGrid& grid) const = 0;
  /// How many pairs of patches see each other.
  [[nodiscard]] virtual double num_pairs(const TokenGrid& grid) const = 0;
};

/// Consecutive heads that share a pattern.
struct HeadPattern {
  std::int64_t num_heads;
  std::unique_ptr<KeyPattern> pattern;
};

/// `logit_scale` and `prefix_balance`, for the rows of the prefix tokens: they alone see more keys
/// in a larger picture.
std::vector<MechanismOption> prefix_row_options();

class SparseSoftmaxMixer final : public TokenMixer {
 public:
  /// `heads`: of all heads, in their order. `options` hold `prefix_row_options`.
  SparseSoftmaxMixer(std::vector<HeadPattern> heads, const TokenGrid& training,
                     MechanismOptions options);
  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const TokenGrid& grid, Kernels kernels) override;
  torch::Tensor attention_rows(const torch::Tensor& q, const torch::Tensor& k,
                               const TokenGrid& grid, std::int64_t first,
                               std::int64_t count) override;

 private:
  /// What is added to a prefix token's score in prefix rows: ln(patches / patches in training), so
  /// that their share of the attention does not shrink with the picture.
  [[nodiscard]] double prefix_balance(const TokenGrid& grid) const;
  /// The same as a mask (1, N); undefined where it is 0.
  [[nodiscard]] at::Tensor prefix_bias(const TokenGrid& grid, const at::TensorOptions& like) const;
  /// Whether tokens first .. first + count see each token: (H or 1, count, N) bool on the CPU.
  [[nodiscard]] at::Tensor sees(const TokenGrid& grid, std::int64_t first,
                                std::int64_t count) const;

  std::vector<HeadPattern> heads_;
  TokenGrid training_;
  MechanismOptions options_;
};

/// 4 D FLOPs per pair of tokens; 4 N D elements moved when fused.
MixerCost sparse_cost(const MixerSize& size, const std::vector<HeadPattern>& heads);

}  // namespace hydrascope::model
