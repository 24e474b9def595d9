// hydrascope::linear_attention: linear attention (Katharopoulos et al. 2020, arXiv 2006.16236,
// equations 4-6), the differentiable operator of the modules and of Python for the maps that the
// kernels know. Per head, with features a_i = phi(q_i), b_t = w_t phi(k_t) in R^F:
//   S = sum_t b_t v_t^T    z = sum_t b_t    y_i = (a_i^T S) / m_i    m_i = a_i . z + eps
// Maps that give exponents U of q and W of k are kept from overflowing exactly, without an eps:
//   M_f = max_t W_tf    b_tf = w_t exp(W_tf - M_f)    a_if = exp(U_if + M_f - max_f(U_if + M_f))
//   m_i = a_i . z
// At the feature that attains the maximum a = 1 and, where w_t = 1, z >= 1, so m_i lies in [1, F N].
// With G = dL/dy the gradient is, M and the maxima being constants of it,
//   gh_i = G_i / m_i    delta_i = (gh_i . y_i)    da_i = S gh_i - delta_i z
//   dS = sum_i a_i gh_i^T    dz = -sum_i delta_i a_i    db_t = w_t (dS v_t + dz)    dv_t = dS^T b_t
// and then through phi. No N x N matrix, and no features of all tokens, exist at any time.
//
// Tensors: q, k (B, H, N, w), v, y (B, H, N, d) of one dtype; phi by its name in
// kernels/linear_attention/linear_attention.h. Forward: those kernels on the CPU, and on a GPU for
// heads of 64 in 16-bit types; all else, and the gradient: linear_formula.h.
// Tests: tests/model/ops/ops_test.py and tests/model/attention.
#pragma once

#include "kernels/linear_attention/linear_attention.h"
#include "model/ops/attention_operator.h"
#include "model/ops/linear_formula.h"

namespace hydrascope::model::ops {

struct LinearOptions {
  static constexpr const char* kName = "linear_attention";
  static constexpr const char* kForward = "hydrascope::_linear_attention_forward";
  static constexpr const char* kBackward = "hydrascope::_linear_attention_backward";

  static constexpr const char* kArguments =
      "int feature, int normaliser, float eps, float unit_eps, int num_prefix, "
      "float prefix_weight, float patch_weight";
  using Arguments =
      std::tuple<std::int64_t, std::int64_t, double, double, std::int64_t, double, double>;

  kernels::linear_attention::Rule rule = {};
  TokenWeights weights = {};

  static LinearOptions from(const Arguments& arguments);
  [[nodiscard]] Arguments arguments() const;
  /// An error unless the inputs fit together.
  void check(const AttentionInputs& in) const;
};

/// Empty outputs: y; S (B, H, F, d), z (B, H, F) and M (B, H, F; 0 without exponents) one after the
/// other in one vector of `compute_type`, which has no element unless `save`. Sizes may be symbols.
AttentionForward empty_linear_outputs(const AttentionInputs& in, bool save,
                                      const LinearOptions& options);

/// The equations in ATen's operations, on any device.
AttentionForward linear_by_formula(const AttentionInputs& in, bool save,
                                   const LinearOptions& options);
AttentionBackward linear_gradient_by_formula(const AttentionInputs& in, const AttentionSaved& saved,
                                             const LinearOptions& options);

}  // namespace hydrascope::model::ops
