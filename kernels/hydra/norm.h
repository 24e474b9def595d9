// 1 / r of Hydra's rows, for processors and GPUs alike.
#pragma once

#include "kernels/hydra/hydra.h"

#include <cmath>
#include <limits>

namespace hydrascope::kernels::hydra {

/// 1 / r. `sum`: sum x_f^2 (l2) or sum |x_f| (l1) of a row; NaN stays NaN. constexpr, so that nvcc
/// may call it from device code.
constexpr float inverse_norm(float sum, const NormRule& rule) {
  if (rule.norm == Norm::none) return 1;
  const float length = rule.norm == Norm::l2 ? std::sqrt(sum) : sum;
  const float r = length < rule.eps ? rule.eps : length;  // this comparison lets a NaN pass
  return std::isnan(r) ? std::numeric_limits<float>::quiet_NaN() : 1 / r;
}

}  // namespace hydrascope::kernels::hydra
