// Softmax attention in which a patch finds the patches that it sees by their contents:
//   y_i = sum_j a_ij v_j,    a_i. = softmax over j in S_i of q_i . k_j / sqrt(d)
//   S_i = all tokens                                    for prefix tokens
//   S_i = prefix tokens, i itself and what i finds      for patches, also patches of an overview
// The finding depends on q and k, but has no gradient. It is decided in float64, from q and k as
// stored: a computation in 16 bits finds other keys than one in float32. A patch's keys come in
// parts (softmax_sums.h): the prefix, itself, and the passes of the pattern. A position rule that
// turns q and k turns them before they find each other; a rule that changes scores changes the
// scores of found keys. Reference: masked rows of the whole map.
#pragma once

#include "model/attention/attention.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace hydrascope::model {

/// G groups of n queries and m keys. Patches of all images and heads are numbered one after the other:
/// (image * H + head) * patches + patch. Groups may repeat a query of their own to be of one size.
struct FoundGroups {
  at::Tensor queries;  ///< (G, n) int64
  at::Tensor keys;     ///< (G, m) int64, of the queries' image and head
  at::Tensor sees;     ///< (G, n, m) bool
};

/// The patches that a patch finds beside itself.
class ContentPattern {
 public:
  ContentPattern() = default;
  ContentPattern(const ContentPattern&) = delete;
  ContentPattern& operator=(const ContentPattern&) = delete;
  virtual ~ContentPattern() = default;

  /// Passes for q, k (B * H, patches, d) of float64: in each of them every patch is a query of one
  /// group, and no two have a key of a patch in common. A patch's own key is none of them.
  [[nodiscard]] virtual std::vector<FoundGroups> passes(const at::Tensor& q,
                                                        const at::Tensor& k) const = 0;
  /// Whether every patch finds all.
  [[nodiscard]] virtual bool finds_all(std::int64_t num_patches) const = 0;
};

class ContentSoftmaxMixer final : public TokenMixer {
 public:
  /// `shares_qk`: k = q / |q|, and a token sees itself only if it sees nothing else: 1e5 is taken
  /// from its own score.
  ContentSoftmaxMixer(std::unique_ptr<ContentPattern> pattern,
                      std::shared_ptr<const PositionRule> position, bool shares_qk = false)
      : pattern_(std::move(pattern)), position_(std::move(position)), shares_qk_(shares_qk) {}
  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const TokenGrid& grid, Kernels kernels) override;
  torch::Tensor attention_rows(const torch::Tensor& q, const torch::Tensor& k,
                               const TokenGrid& grid, std::int64_t first,
                               std::int64_t count) override;
  [[nodiscard]] bool needs_all_queries() const override { return true; }
  [[nodiscard]] const PositionRule* position() const override { return position_.get(); }

 private:
  [[nodiscard]] at::Tensor keys_of(const at::Tensor& q, const at::Tensor& k) const;
  [[nodiscard]] std::vector<FoundGroups> find(const at::Tensor& q, const at::Tensor& k,
                                              const TokenGrid& grid) const;
  [[nodiscard]] at::Tensor rows(const at::Tensor& q, const at::Tensor& keys, const TokenGrid& grid,
                                const std::vector<FoundGroups>& passes, std::int64_t first,
                                std::int64_t count) const;

  std::unique_ptr<ContentPattern> pattern_;
  std::shared_ptr<const PositionRule> position_;
  bool shares_qk_;
};

}  // namespace hydrascope::model
