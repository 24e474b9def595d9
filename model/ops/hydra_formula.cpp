#include "model/ops/hydra_formula.h"

#include "model/attention/hydra_kernel.h"
#include "model/ops/token_rows.h"

#include <ATen/ATen.h>

namespace hydrascope::model::ops {
namespace {

using at::Tensor;
using kernels::hydra::Eps;
using kernels::hydra::Norm;

/// (B, H, N, d) -> (B, N, H d) to compute with.
Tensor merged(const Tensor& x) { return x.transpose(1, 2).flatten(2).to(compute_type(x)); }

/// (B, N, H d) -> a tensor of `like`'s shape and type whose tokens are rows.
Tensor split_like(const Tensor& x, const Tensor& like) {
  return empty_token_rows(like).copy_(x.unflatten(2, {like.size(1), like.size(3)}).transpose(1, 2));
}

/// phi(x) = x / r(x) and its vector-Jacobian product.
class UnitRows {
 public:
  UnitRows(Norm norm, const HydraOptions& options)
      : kernel_(norm == Norm::none ? nullptr
                                   : &find_hydra_kernel(norm == Norm::l2 ? "cosine" : "l1")) {
    switch (options.kernel().eps_rule) {
      case Eps::max: settings_.policy = EpsPolicy::max; break;
      case Eps::rsqrt: settings_.policy = EpsPolicy::rsqrt; break;
      case Eps::add: settings_.policy = EpsPolicy::add; break;
    }
    settings_.eps = options.eps;
  }
  [[nodiscard]] Tensor operator()(const Tensor& x) const {
    return kernel_ == nullptr ? x : kernel_->forward(x, settings_);
  }
  [[nodiscard]] Tensor vjp(const Tensor& x, const Tensor& unit, const Tensor& g) const {
    return kernel_ == nullptr ? g : kernel_->vjp(x, unit, g, settings_);
  }

 private:
  const HydraKernel* kernel_;
  HydraKernelSettings settings_;
};

/// w_t x_t
Tensor weighted(const Tensor& x, const HydraOptions& options) {
  if (options.prefix_weight == 1 && options.patch_weight == 1) return x;
  Tensor weights = at::full({x.size(1), 1}, options.patch_weight, x.options());
  weights.narrow(0, 0, options.num_prefix).fill_(options.prefix_weight);
  return x * weights;
}

}  // namespace

HydraForward hydra_formula(const Tensor& q, const Tensor& k, const Tensor& v,
                           const Tensor& feature_scale, const HydraOptions& options) {
  const Tensor unit_k = UnitRows(options.kernel().norm_k, options)(merged(k));
  const Tensor c = weighted(unit_k * merged(v), options).sum(1);
  const Tensor g = feature_scale.defined() ? c * feature_scale.to(c.scalar_type()) : c;
  const Tensor y = UnitRows(options.kernel().norm_q, options)(merged(q)) * g.unsqueeze(1);
  return {split_like(y, q), c};
}

HydraBackward hydra_formula_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& feature_scale, const Tensor& saved,
                                     const Tensor& grad_y, bool with_feature_scale,
                                     const HydraOptions& options) {
  const UnitRows of_q(options.kernel().norm_q, options);
  const UnitRows of_k(options.kernel().norm_k, options);
  const Tensor& c = saved;
  const Tensor scale = feature_scale.defined() ? feature_scale.to(c.scalar_type()) : Tensor();
  const Tensor gradient = merged(grad_y);

  const Tensor rows_q = merged(q);
  const Tensor unit_q = of_q(rows_q);
  const Tensor dg = (unit_q * gradient).sum(1);
  const Tensor g = scale.defined() ? c * scale : c;
  const Tensor dq = of_q.vjp(rows_q, unit_q, gradient * g.unsqueeze(1));

  const Tensor rows_k = merged(k);
  const Tensor unit_k = of_k(rows_k);
  const Tensor dc = (scale.defined() ? dg * scale : dg).unsqueeze(1);
  const Tensor dk = of_k.vjp(rows_k, unit_k, weighted(dc * merged(v), options));
  const Tensor dv = weighted(dc * unit_k, options);

  const Tensor dscale = with_feature_scale ? (dg * c).sum(0).to(feature_scale.scalar_type())
                                           : at::empty({0}, c.options());
  return {split_like(dq, q), split_like(dk, k), split_like(dv, v), dscale};
}

}  // namespace hydrascope::model::ops
