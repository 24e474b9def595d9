// 1 / r of Hydra's rows, by the kernel's rule for small norms; for processors and GPUs alike.
#pragma once

#include "kernels/hydra/hydra.h"

#include <cmath>
#include <limits>

namespace hydrascope::kernels::hydra {

struct NormRule {
  Norm norm;
  Eps eps_rule;
  float eps;
};
constexpr NormRule query_rule(const Kernel& kernel) {
  return {kernel.norm_q, kernel.eps_rule, kernel.eps};
}
constexpr NormRule key_rule(const Kernel& kernel) {
  return {kernel.norm_k, kernel.eps_rule, kernel.eps};
}

// `sum`: sum x_f^2 (l2) or sum |x_f| (l1) of a row; NaN stays NaN.
// constexpr is what lets nvcc call them from device code.

/// |x|.
constexpr float length_of(float sum, const NormRule& rule) {
  return rule.norm == Norm::l2 ? std::sqrt(sum) : sum;
}
/// 1 / r.
constexpr float inverse_norm(float sum, const NormRule& rule) {
  if (rule.norm == Norm::none) return 1;
  float r = length_of(sum, rule);
  switch (rule.eps_rule) {
    case Eps::max: r = r < rule.eps ? rule.eps : r; break;  // asked this way round a NaN stays
    case Eps::rsqrt:
      r = std::sqrt((rule.norm == Norm::l2 ? sum : sum * sum) + rule.eps * rule.eps);
      break;
    case Eps::add: r += rule.eps; break;
  }
  return std::isnan(r) ? std::numeric_limits<float>::quiet_NaN() : 1 / r;
}

}  // namespace hydrascope::kernels::hydra
