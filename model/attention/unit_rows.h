// Rows divided by their norm, x / r(x), with a norm that is kept from zero (kernels/hydra/hydra.h).
#pragma once

#include "kernels/hydra/hydra.h"

#include <ATen/core/Tensor.h>

namespace hydrascope::model {

/// How a norm is kept from zero.
enum class EpsPolicy {
  max,    ///< max(norm, eps), the one that kernels have
  rsqrt,  ///< sqrt(norm^2 + eps^2)
  add     ///< norm + eps
};

struct UnitRule {
  kernels::hydra::Norm norm = kernels::hydra::Norm::l2;
  double eps = 1e-6;
  EpsPolicy policy = EpsPolicy::max;
};

/// x (..., D) of float32 or float64 over its last dimension. A row of |x| < eps is a constant of the
/// gradient, whose 1 / eps would be a spike of a million; autograd follows that, too.
at::Tensor unit_rows(const at::Tensor& x, const UnitRule& rule = {});
/// J^T g, for unit = unit_rows(x) by EpsPolicy::max.
at::Tensor unit_rows_vjp(const at::Tensor& x, const at::Tensor& unit, const at::Tensor& g,
                         const UnitRule& rule = {});

}  // namespace hydrascope::model
