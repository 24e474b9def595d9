// Hydra attention (Bolya et al. 2022, arXiv 2209.07484, equation 8; not the state-space model of that
// name), differentiable, for the modules and for Python. A token's H heads are one vector of D = H d
// values:
//   c = sum_t w_t (k_t / r(k_t)) * v_t      g = feature_scale * c      y_i = (q_i / r(q_i)) * g
// r is a norm of at least eps (kernels/hydra/hydra.h), w_t = weights.prefix for the first
// num_prefix tokens and weights.patch for the others. With q^ = q / r(q), k^ = k / r(k) and G =
// dL/dy the gradient is
//   dg = sum_i q^_i * G_i    dfeature_scale = sum over images of dg * c    dc = dg * feature_scale
//   dq^_i = G_i * g    dk^_t = w_t dc * v_t    dv_t = w_t dc * k^_t    then through r
// A token of |x| < eps counts as constant there: 1 / eps would be a spike of a million.
//
// Tensors: q, k, v, y (B, H, N, d) of one dtype; feature_scale (D), any floating type. Memory
// O(N D). Forward: kernels/hydra on the CPU and on a GPU; the gradient, float64 and other devices:
// the formula below. Tests: tests/model/ops/ops_test.py and tests/model/attention.
#pragma once

#include "model/attention/unit_rows.h"
#include "model/ops/attention_sums.h"

namespace hydrascope::model::ops {

class HydraSums final : public AttentionSums {
 public:
  static constexpr const char* kName = "hydra_attention";

  HydraSums(const kernels::hydra::Kernel& kernel, const TokenWeights& weights)
      : kernel_(kernel), weights_(weights) {}

  [[nodiscard]] AttentionForward forward(const AttentionInputs& in, bool save) const override;
  [[nodiscard]] AttentionBackward backward(const AttentionInputs& in,
                                           const AttentionSaved& saved) const override;
  void check(const AttentionInputs& in) const override;
  [[nodiscard]] at::Tensor empty_sums(const AttentionInputs& in) const override;

  /// The forward pass in ATen's operations and `compute_type`, on any device; the sums are c (B, D).
  [[nodiscard]] AttentionForward formula(const AttentionInputs& in) const;
  [[nodiscard]] const kernels::hydra::Kernel& kernel() const { return kernel_; }
  [[nodiscard]] const TokenWeights& weights() const { return weights_; }

 private:
  kernels::hydra::Kernel kernel_;
  TokenWeights weights_;
};

}  // namespace hydrascope::model::ops
