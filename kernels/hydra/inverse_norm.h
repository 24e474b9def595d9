// 1 / r of Hydra's rows from the sum over the row, by the kernel's rule for small norms.
#pragma once

#include "kernels/hydra/hydra.h"

#include <cmath>
#include <limits>

namespace hydrascope::kernels::hydra {

/// sum: sum x_f^2 (l2) or sum |x_f| (l1) of a row; NaN stays NaN.
inline float inverse_norm_from_sum(float sum, Norm norm, const Kernel& kernel) {
  if (norm == Norm::none) return 1;
  const float eps = kernel.eps;
  float r = 0;
  if (kernel.eps_rule == Eps::rsqrt) {
    r = std::sqrt((norm == Norm::l2 ? sum : sum * sum) + eps * eps);
  } else {
    r = norm == Norm::l2 ? std::sqrt(sum) : sum;
    if (kernel.eps_rule == Eps::add) {
      r += eps;
    } else if (r < eps) {  // asked this way round a NaN stays
      r = eps;
    }
  }
  return std::isnan(r) ? std::numeric_limits<float>::quiet_NaN() : 1 / r;
}

}  // namespace hydrascope::kernels::hydra
