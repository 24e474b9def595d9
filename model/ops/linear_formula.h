// Linear attention in ATen's operations: the forward of float64 and the CPU's backward.
#pragma once

#include "model/ops/linear_attention.h"

namespace hydrascope::model::ops {

/// S, z and M as views of the vector that holds them.
struct StateViews {
  at::Tensor kv_sum;   ///< S (B, H, F, d)
  at::Tensor k_sum;    ///< z (B, H, F)
  at::Tensor maximum;  ///< M (B, H, F)
};
StateViews views_of_state(const at::Tensor& state, const at::Tensor& q, const at::Tensor& v,
                          const LinearOptions& options);

/// The equations of linear_attention.h in `compute_type`, on any device, features of some hundred
/// tokens at a time. Chunks depend on F alone, so a result depends neither on the batch nor on the
/// threads' number.
LinearForward linear_formula(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             bool save, const LinearOptions& options);
LinearBackward linear_formula_backward(const LinearSaved& saved, const at::Tensor& grad_y,
                                       const LinearOptions& options);

}  // namespace hydrascope::model::ops
