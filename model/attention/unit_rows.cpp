#include "model/attention/unit_rows.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace hydrascope::model {
namespace {

using at::Tensor;
using kernels::hydra::Norm;

Tensor row_norm(const Tensor& x, const UnitRule& rule) {
  return at::linalg_vector_norm(x, rule.norm == Norm::l1 ? 1 : 2, at::IntArrayRef{-1},
                                /*keepdim=*/true);
}

/// r, what stands in the place of the norm.
Tensor divisor(const Tensor& norm, const UnitRule& rule) {
  switch (rule.policy) {
    case EpsPolicy::max: return norm.clamp_min(rule.eps);
    case EpsPolicy::rsqrt: return (norm * norm + rule.eps * rule.eps).sqrt();
    case EpsPolicy::add: return norm + rule.eps;
  }
  return norm;
}

}  // namespace

Tensor unit_rows(const Tensor& x, const UnitRule& rule) {
  if (rule.norm == Norm::none) return x;
  const Tensor norm = row_norm(x, rule);
  const Tensor r = divisor(norm, rule);
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return x / r;
  const Tensor small = norm.detach() < rule.eps;
  return at::where(small, x.detach(), x) / at::where(small, r.detach(), r);
}

Tensor unit_rows_vjp(const Tensor& x, const Tensor& unit, const Tensor& g, const UnitRule& rule) {
  if (rule.norm == Norm::none) return g;
  // (g - (d|x|/dx) (unit.g)) / r; for the L2 norm that is (g - unit (unit.g)) / |x|.
  const Tensor norm = row_norm(x, rule);
  const Tensor r = divisor(norm, rule);
  const Tensor direction = rule.norm == Norm::l1 ? x.sign() : at::where(norm > 0, x / norm, 0);
  const Tensor along = (unit * g).sum(-1, /*keepdim=*/true);
  return ((g - direction * along) / r).masked_fill(norm < rule.eps, 0);
}

}  // namespace hydrascope::model
