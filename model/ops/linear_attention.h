// hydrascope::linear_attention: linear attention (Katharopoulos et al. 2020, arXiv 2006.16236,
// equations 4-6) as an operator of PyTorch. Per head, with features a_i = phi(q_i), b_t = w_t
// phi(k_t) in R^F:
//   S = sum_t b_t v_t^T    z = sum_t b_t    y_i = (a_i^T S) / m_i    m_i = a_i . z + eps
// Maps that give exponents U of q and W of k are kept from overflowing exactly, without an eps:
//   M_f = max_t W_tf    b_tf = w_t exp(W_tf - M_f)    a_if = exp(U_if + M_f - max_f(U_if + M_f))
//   m_i = a_i . z
// With G = dL/dy the gradient is, M and the maxima being constants of it,
//   gh_i = G_i / m_i    delta_i = (gh_i . y_i)    da_i = S gh_i - delta_i z
//   dS = sum_i a_i gh_i^T    dz = -sum_i delta_i a_i    db_t = w_t (dS v_t + dz)    dv_t = dS^T b_t
// and then through phi. No N x N matrix, and no features of all tokens, exist at any time.
//
// Tensors: q, k (B, H, N, w), v, y (B, H, N, d) of one dtype; phi by its name in
// kernels/linear_attention/linear_attention.h. Tests: tests/model/ops/ops_test.py.
#pragma once

#include "kernels/linear_attention/linear_attention.h"
#include "model/ops/kernel_errors.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

namespace hydrascope::model::ops {

/// The scalars of the operator, enumerations as numbers of the kernels' header.
struct LinearOptions {
  std::int64_t feature = 0;
  std::int64_t normaliser = 0;
  double eps = 1e-6;
  double unit_eps = 1e-6;
  std::int64_t num_prefix = 0;
  double prefix_weight = 1;
  double patch_weight = 1;

  [[nodiscard]] kernels::linear_attention::Feature map() const {
    return static_cast<kernels::linear_attention::Feature>(feature);
  }
  [[nodiscard]] bool exponential() const {
    return kernels::linear_attention::is_exponential(map());
  }
  /// Whether there is an m at all.
  [[nodiscard]] bool divides() const {
    return exponential() ||
           normaliser != static_cast<std::int64_t>(kernels::linear_attention::Normaliser::none);
  }
  [[nodiscard]] bool weighs() const { return prefix_weight != 1 || patch_weight != 1; }
  /// The kernels' shape for `heads` heads of q and v.
  [[nodiscard]] kernels::linear_attention::Shape shape(std::int64_t heads, const at::Tensor& q,
                                                       const at::Tensor& v) const {
    return {heads,
            q.size(3),
            v.size(3),
            map(),
            static_cast<kernels::linear_attention::Normaliser>(normaliser),
            static_cast<float>(eps),
            static_cast<float>(unit_eps)};
  }
};

/// y; S (B, H, F, d), z (B, H, F) and M (B, H, F; 0 without exponents) one after the other in one
/// vector of `compute_type`; m (B, H, N) in float32, on CUDA only (elsewhere 0). The last two are
/// empty unless they are to be saved.
using LinearForward = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
/// The gradients of q, k and v.
using LinearBackward = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// What the backward pass needs beside the scalars.
struct LinearSaved {
  const at::Tensor& q;
  const at::Tensor& k;
  const at::Tensor& v;
  const at::Tensor& y;
  const at::Tensor& state;
  const at::Tensor& denominator;
};

/// An error unless q, k, v and the options fit together.
void check_linear(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const LinearOptions& options);

/// Empty outputs: y, and state and denominator where they are to be saved. Sizes may be symbols.
LinearForward empty_linear_outputs(const at::Tensor& q, const at::Tensor& v, bool save,
                                   const LinearOptions& options);

/// `kForward(q, k, v, save, options)` of a device in the shape of the operator.
template <auto kForward>
LinearForward linear_forward_operator(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                      bool save, std::int64_t feature, std::int64_t normaliser,
                                      double eps, double unit_eps, std::int64_t num_prefix,
                                      double prefix_weight, double patch_weight) {
  const LinearOptions options{feature,    normaliser,    eps,         unit_eps,
                              num_prefix, prefix_weight, patch_weight};
  check_linear(q, k, v, options);
  return with_kernel_errors("linear_attention", [&] { return kForward(q, k, v, save, options); });
}

/// `kBackward(saved, grad_y, options)` likewise.
template <auto kBackward>
LinearBackward linear_backward_operator(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& v, const at::Tensor& y,
                                        const at::Tensor& state, const at::Tensor& denominator,
                                        const at::Tensor& grad_y, std::int64_t feature,
                                        std::int64_t normaliser, double eps, double unit_eps,
                                        std::int64_t num_prefix, double prefix_weight,
                                        double patch_weight) {
  const LinearOptions options{feature,    normaliser,    eps,         unit_eps,
                              num_prefix, prefix_weight, patch_weight};
  check_linear(q, k, v, options);
  return with_kernel_errors("linear_attention", [&] {
    return kBackward(LinearSaved{q, k, v, y, state, denominator}, grad_y, options);
  });
}

}  // namespace hydrascope::model::ops
