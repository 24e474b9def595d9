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

/// x times feature_scale in the type of the computation.
Tensor scaled(const Tensor& x, const AttentionInputs& in) {
  return in.feature_scale ? x * in.feature_scale->to(compute_type(in.q)) : x;
}

}  // namespace

AttentionForward HydraSums::forward(const AttentionInputs& in, bool) const {
  const auto kernels = kernels_of(in.q.device().type()).hydra;
  return kernels != nullptr ? kernels(in, *this) : formula(in);
}

void HydraSums::check(const AttentionInputs& in) const {
  check_tokens(kName, in.q, in.k, in.v, /*one_width=*/true, weights_.num_prefix);
  if (!in.feature_scale) return;
  const Tensor& scale = *in.feature_scale;
  TORCH_CHECK(scale.dim() == 1 && scale.sym_size(0) == in.q.sym_size(1) * in.q.sym_size(3),
              "hydrascope::", kName, ": feature_scale has shape ", scale.sym_sizes(),
              ", expected (heads * head_dim) = [", in.q.sym_size(1) * in.q.sym_size(3), "]");
  TORCH_CHECK(at::isFloatingType(scale.scalar_type()), "hydrascope::", kName, ": feature_scale is ",
              scale.scalar_type(), ", expected a floating type");
  TORCH_CHECK(scale.device() == in.q.device(), "hydrascope::", kName, ": feature_scale is on ",
              scale.device(), ", expected q's ", in.q.device());
}

Tensor HydraSums::empty_sums(const AttentionInputs& in) const {
  return at::empty_symint({in.q.sym_size(0), in.q.sym_size(1) * in.q.sym_size(3)},
                          in.q.options().dtype(compute_type(in.q)));
}

AttentionForward HydraSums::formula(const AttentionInputs& in) const {
  const Tensor unit_k = unit_rows(merged(in.k), kernel_.key);
  const Tensor c = weighted(unit_k * merged(in.v), weights_).sum(1);
  const Tensor y = unit_rows(merged(in.q), kernel_.query) * scaled(c, in).unsqueeze(1);
  return {split_like(y, in.q), c};
}

AttentionBackward HydraSums::backward(const AttentionInputs& in,
                                      const AttentionSaved& saved) const {
  const Tensor& c = saved.sums;
  const Tensor gradient = merged(saved.grad_y);

  const Tensor rows_q = merged(in.q);
  const Tensor unit_q = unit_rows(rows_q, kernel_.query);
  const Tensor dg = (unit_q * gradient).sum(1);
  const Tensor dq =
      unit_rows_vjp(rows_q, unit_q, gradient * scaled(c, in).unsqueeze(1), kernel_.query);

  const Tensor rows_k = merged(in.k);
  const Tensor unit_k = unit_rows(rows_k, kernel_.key);
  const Tensor dc = scaled(dg, in).unsqueeze(1);
  const Tensor dk =
      unit_rows_vjp(rows_k, unit_k, weighted(dc * merged(in.v), weights_), kernel_.key);
  const Tensor dv = weighted(dc * unit_k, weights_);

  return {
      split_like(dq, in.q), split_like(dk, in.k), split_like(dv, in.v),
      saved.with_feature_scale ? (dg * c).sum(0).to(in.feature_scale->scalar_type()) : Tensor()};
}

}  // namespace hydrascope::model::ops
