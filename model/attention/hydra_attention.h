// Attention with as many heads as features, each one wide (Hydra Attention, Bolya et al. 2022,
// arXiv 2209.07484, equation 7; not the bidirectional state-space model of the same name):
//   c = sum_t w_t phi_k(k_t) * v_t   (one D-vector for all tokens)      y_i = phi_q(q_i) * c
// AFT-Simple and PolyNL are the same with other phi. All tensors are (B, N, D).
#pragma once

#include "model/attention/attention.h"
#include "model/attention/hydra_kernel.h"
#include "model/attention/registry.h"
#include "model/attention/token_scale.h"

#include <cstdint>
#include <vector>

namespace hydrascope::model {

struct HydraSettings {
  const HydraKernel& phi_q;
  const HydraKernel& phi_k;
  HydraKernelSettings kernel;
};

/// y (B, N, D) in v's dtype. Keeps q, k, v and c for the backward pass and computes phi again:
///   dc = sum_i phi_q(q_i) * g_i    dv_t = w_t dc * phi_k(k_t)    dphi_k = w_t dc * v_t
///   dphi_q = g_i * c               then through phi
at::Tensor hydra_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const TokenGrid& grid, const TokenWeights& weights,
                           const HydraSettings& settings);

/// The same in plain operations that autograd differentiates.
at::Tensor hydra_attention_reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                     const TokenGrid& grid, const TokenWeights& weights,
                                     const HydraSettings& settings);

/// A mechanism of this family; `feature_scale` (D), when defined, multiplies c.
class HydraMixer : public TokenMixer {
 public:
  HydraMixer(const HydraSettings& settings, TokenScale scale, const TokenGrid& training_grid,
             at::Tensor feature_scale = {});
  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const TokenGrid& grid, Kernels kernels) override;
  /// Undefined: every feature has a map of its own, of rank one.
  torch::Tensor attention_rows(const torch::Tensor& q, const torch::Tensor& k,
                               const TokenGrid& grid, std::int64_t first,
                               std::int64_t count) override;
  torch::Tensor mix_rows(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                         const TokenGrid& grid, std::int64_t first, std::int64_t count) override;
  torch::Tensor weighted_rows(const torch::Tensor& q, const torch::Tensor& k,
                              const torch::Tensor& v, const torch::Tensor& g, const TokenGrid& grid,
                              std::int64_t first, std::int64_t count) override;
  [[nodiscard]] bool needs_all_queries() const override {
    return settings_.phi_q.token_exponent != 0;
  }
  [[nodiscard]] FusedMixing fused() const override;
  [[nodiscard]] TokenWeights token_weights(const TokenGrid& grid) const override;
  /// What each token gives to the global vector that gates multiply, feature scale included:
  /// (B, N, D), the sum over N is that vector.
  [[nodiscard]] torch::Tensor global_terms(const torch::Tensor& k, const torch::Tensor& v,
                                           const TokenGrid& grid) const;

 private:
  /// w_t phi_k(k_t) * v_t (B, N, D); they sum to c.
  [[nodiscard]] torch::Tensor terms(const torch::Tensor& k, const torch::Tensor& v,
                                    const TokenGrid& grid) const;
  /// What multiplies c: rows of phi_q(q), and the feature scale (B, count, D).
  [[nodiscard]] torch::Tensor gates(const torch::Tensor& q, std::int64_t first,
                                    std::int64_t count) const;

  HydraSettings settings_;
  TokenScale scale_;
  TokenGrid training_grid_;
  at::Tensor feature_scale_;
};

/// 2 N D multiply-adds and the kernels' passes (some 4 N D); 4 N D s bytes and one D-vector.
MixerCost hydra_cost(const MixerSize& size, double kernel_multiply_adds_per_element);

}  // namespace hydrascope::model
