#include "model/ops/hydra_attention.h"

#include <ATen/ATen.h>

namespace hydrascope::model::ops {
namespace {

using at::Tensor;

/// (B, H, N, d) -> (B, N, H d) to compute with.
Tensor merged(const Tensor& x) { return to_compute_type(merge_heads(x)); }

/// (B, N, H d) -> a tensor of `like`'s shape and type whose tokens are rows.
Tensor split_like(const Tensor& x, const Tensor& like) {
  return split_heads(x.to(like.scalar_type()).contiguous(), like.size(1));
}

/// feature_scale in the type of the computation; undefined if there is none.
Tensor scale_of(const AttentionInputs& in) {
  return in.feature_scale ? in.feature_scale->to(compute_type(in.q)) : Tensor();
}

}  // namespace

AttentionForward hydra_formula(const AttentionInputs& in, bool, const HydraOptions& options) {
  const Tensor unit_k = unit_rows(merged(in.k), options.kernel.key);
  const Tensor c = weighted(unit_k * merged(in.v), options.weights).sum(1);
  const Tensor scale = scale_of(in);
  const Tensor g = scale.defined() ? c * scale : c;
  const Tensor y = unit_rows(merged(in.q), options.kernel.query) * g.unsqueeze(1);
  return {split_like(y, in.q), c};
}

AttentionBackward hydra_formula_backward(const AttentionInputs& in, const AttentionSaved& saved,
                                         const HydraOptions& options) {
  const auto& [of_q, of_k] = options.kernel;
  const Tensor& c = saved.sums;
  const Tensor scale = scale_of(in);
  const Tensor gradient = merged(saved.grad_y);

  const Tensor rows_q = merged(in.q);
  const Tensor unit_q = unit_rows(rows_q, of_q);
  const Tensor dg = (unit_q * gradient).sum(1);
  const Tensor g = scale.defined() ? c * scale : c;
  const Tensor dq = unit_rows_vjp(rows_q, unit_q, gradient * g.unsqueeze(1), of_q);

  const Tensor rows_k = merged(in.k);
  const Tensor unit_k = unit_rows(rows_k, of_k);
  const Tensor dc = (scale.defined() ? dg * scale : dg).unsqueeze(1);
  const Tensor dk =
      unit_rows_vjp(rows_k, unit_k, weighted(dc * merged(in.v), options.weights), of_k);
  const Tensor dv = weighted(dc * unit_k, options.weights);

  return {split_like(dq, in.q), split_like(dk, in.k), split_like(dv, in.v),
          saved.with_feature_scale ? (dg * c).sum(0).to(in.feature_scale->scalar_type())
                                   : at::empty({0}, c.options())};
}

}  // namespace hydrascope::model::ops
