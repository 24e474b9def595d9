// hydrascope::hydra_attention: Hydra attention (Bolya et al. 2022, arXiv 2209.07484, equation 8;
// not the state-space model of that name) as an operator of PyTorch. A token's H heads are one
// vector of D = H d values:
//   c = sum_t w_t (k_t / r(k_t)) * v_t      g = feature_scale * c      y_i = (q_i / r(q_i)) * g
// r is a norm kept from zero by eps (kernels/hydra/hydra.h), w_t = prefix_weight for the first
// num_prefix tokens and patch_weight for the others. With q^ = q / r(q), k^ = k / r(k) and G =
// dL/dy the gradient is
//   dg = sum_i q^_i * G_i    dfeature_scale = sum over images of dg * c    dc = dg * feature_scale
//   dq^_i = G_i * g    dk^_t = w_t dc * v_t    dv_t = w_t dc * k^_t    then through r
// where a token of |x| < eps counts as constant: 1 / eps would be a spike of a million.
//
// Tensors: q, k, v, y (B, H, N, d) of one dtype; feature_scale (D), any floating type. Memory
// O(N D). Tests: tests/model/ops/ops_test.py.
#pragma once

#include "kernels/hydra/hydra.h"
#include "model/ops/kernel_errors.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

namespace hydrascope::model::ops {

/// The scalars of the operator, enumerations as numbers of kernels/hydra/hydra.h.
struct HydraOptions {
  std::int64_t norm_q = 0;
  std::int64_t norm_k = 0;
  std::int64_t eps_rule = 0;
  double eps = 1e-6;
  std::int64_t num_prefix = 0;
  double prefix_weight = 1;
  double patch_weight = 1;

  [[nodiscard]] kernels::hydra::Kernel kernel() const {
    return {static_cast<kernels::hydra::Norm>(norm_q), static_cast<kernels::hydra::Norm>(norm_k),
            static_cast<kernels::hydra::Eps>(eps_rule), static_cast<float>(eps)};
  }
};

/// y, and what the backward pass reads of the sums: (B, D) in `compute_type`.
using HydraForward = std::tuple<at::Tensor, at::Tensor>;
/// The gradients of q, k, v and, where asked for, feature_scale (D), else an empty tensor.
using HydraBackward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// An error unless q, k, v and feature_scale fit together.
void check_hydra(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                 const std::optional<at::Tensor>& feature_scale, const HydraOptions& options);

/// `kForward(q, k, v, feature_scale, options)` of a device in the shape of the operator;
/// `feature_scale` is undefined where there is none.
template <auto kForward>
HydraForward hydra_forward_operator(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                    const std::optional<at::Tensor>& feature_scale,
                                    std::int64_t norm_q, std::int64_t norm_k, std::int64_t eps_rule,
                                    double eps, std::int64_t num_prefix, double prefix_weight,
                                    double patch_weight) {
  const HydraOptions options{norm_q,     norm_k,        eps_rule,    eps,
                             num_prefix, prefix_weight, patch_weight};
  check_hydra(q, k, v, feature_scale, options);
  return with_kernel_errors("hydra_attention", [&] {
    return kForward(q, k, v, feature_scale.value_or(at::Tensor()), options);
  });
}

/// `kBackward(q, k, v, feature_scale, saved, grad_y, with_feature_scale, options)` likewise.
template <auto kBackward>
HydraBackward hydra_backward_operator(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                      const std::optional<at::Tensor>& feature_scale,
                                      const at::Tensor& saved, const at::Tensor& grad_y,
                                      bool with_feature_scale, std::int64_t norm_q,
                                      std::int64_t norm_k, std::int64_t eps_rule, double eps,
                                      std::int64_t num_prefix, double prefix_weight,
                                      double patch_weight) {
  const HydraOptions options{norm_q,     norm_k,        eps_rule,    eps,
                             num_prefix, prefix_weight, patch_weight};
  check_hydra(q, k, v, feature_scale, options);
  return with_kernel_errors("hydra_attention", [&] {
    return kBackward(q, k, v, feature_scale.value_or(at::Tensor()), saved, grad_y,
                     with_feature_scale, options);
  });
}

}  // namespace hydrascope::model::ops
