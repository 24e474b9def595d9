#include "model/attention/unit_rows.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace hydrascope::model {
namespace {

using at::Tensor;
using kernels::hydra::Norm;
using kernels::hydra::NormRule;

Tensor row_norm(const Tensor& x, const NormRule& rule) {
  return at::linalg_vector_norm(x, rule.norm == Norm::l1 ? 1 : 2, at::IntArrayRef{-1},
                                /*keepdim=*/true);
}

/// r, the divisor in place of the norm.
Tensor divisor(const Tensor& norm, double eps, EpsPolicy policy) {
  switch (policy) {
    case EpsPolicy::max: return norm.clamp_min(eps);
    case EpsPolicy::rsqrt: return (norm * norm + eps * eps).sqrt();
    case EpsPolicy::add: return norm + eps;
  }
  return norm;
}

}  // namespace

Tensor unit_rows(const Tensor& x, const NormRule& rule, EpsPolicy policy) {
  if (rule.norm == Norm::none) return x;
  const Tensor norm = row_norm(x, rule);
  const Tensor r = divisor(norm, rule.eps, policy);
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return x / r;
  const Tensor small = norm.detach() < rule.eps;
  return at::where(small, x.detach(), x) / at::where(small, r.detach(), r);
}

Tensor unit_rows_vjp(const Tensor& x, const Tensor& unit, const Tensor& g, const NormRule& rule) {
  if (rule.norm == Norm::none) return g;
  // (g - (d|x|/dx) (unit.g)) / r; for the L2 norm that is (g - unit (unit.g)) / |x|.
  const Tensor norm = row_norm(x, rule);
  const Tensor r = divisor(norm, rule.eps, EpsPolicy::max);
  const Tensor direction = rule.norm == Norm::l1 ? x.sign() : at::where(norm > 0, x / norm, 0);
  const Tensor along = (unit * g).sum(-1, /*keepdim=*/true);
  return ((g - direction * along) / r).masked_fill(norm < rule.eps, 0);
}

}  // namespace hydrascope::model
