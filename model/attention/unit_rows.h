// Rows divided by their norm, x / r(x), with a norm that is kept from zero (kernels/hydra/hydra.h).
#pragma once

#include "kernels/hydra/hydra.h"

#include <ATen/core/Tensor.h>

namespace hydrascope::model {

/// The way in which a norm is kept from zero.
enum class EpsPolicy {
  max,    ///< max(norm, eps), the one that kernels have
  rsqrt,  ///< sqrt(norm^2 + eps^2)
  add     ///< norm + eps
};

/// x (..., D) of float32 or float64 over its last dimension. The gradient takes a row of |x| < eps
/// as a constant: its 1 / eps would be a spike of a million. Autograd does the same.
at::Tensor unit_rows(const at::Tensor& x, const kernels::hydra::NormRule& rule = {},
                     EpsPolicy policy = EpsPolicy::max);
/// J^T g, for unit = unit_rows(x) by EpsPolicy::max.
at::Tensor unit_rows_vjp(const at::Tensor& x, const at::Tensor& unit, const at::Tensor& g,
                         const kernels::hydra::NormRule& rule = {});

}  // namespace hydrascope::model
