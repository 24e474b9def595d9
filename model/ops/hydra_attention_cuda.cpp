// Hydra attention on a GPU: kernels/hydra/hydra_cuda.h with PyTorch's memory and stream.
#include "kernels/hydra/hydra_cuda.h"
#include "model/ops/device_key.h"
#include "model/ops/device_stream.h"
#include "model/ops/hydra_formula.h"
#include "model/ops/token_rows.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

namespace hydrascope::model::ops {
namespace {

using at::Tensor;
namespace cuda = kernels::hydra::cuda;

const float* floats_of(const Tensor& x) {
  return x.defined() ? x.const_data_ptr<float>() : nullptr;
}

/// feature_scale as the kernels read it, undefined where there is none.
Tensor single_precision(const Tensor& feature_scale) {
  return feature_scale.defined() ? feature_scale.to(at::kFloat).contiguous() : Tensor();
}

cuda::Shape shape_of(const Tensor& q, const HydraOptions& options) {
  return {q.size(0),
          q.size(2),
          q.size(2),
          q.size(1) * q.size(3),
          options.kernel(),
          options.num_prefix,
          static_cast<float>(options.prefix_weight),
          static_cast<float>(options.patch_weight)};
}

template <class T>
HydraForward forward_of(const Tensor& any_q, const Tensor& any_k, const Tensor& any_v,
                        const Tensor& feature_scale, const HydraOptions& options) {
  const Tensor q = with_token_rows(any_q);
  const Tensor k = with_token_rows(any_k);
  const Tensor v = with_token_rows(any_v);
  const Tensor scale = single_precision(feature_scale);
  const Tensor y = empty_token_rows(q);
  cuda::ForwardParams<T> p{};
  p.shape = shape_of(q, options);
  const Tensor c = at::empty({p.shape.images, p.shape.dim}, q.options().dtype(at::kFloat));
  const Tensor g = scale.defined() ? at::empty_like(c) : c;
  const Tensor workspace =
      workspace_for(q, cuda::workspace_bytes(p.shape), cuda::workspace_zero_bytes(p.shape));
  set_rows(p.q, q);
  set_rows(p.k, k);
  set_rows(p.v, v);
  p.feature_scale = floats_of(scale);
  p.global = g.mutable_data_ptr<float>();
  p.sum = scale.defined() ? c.mutable_data_ptr<float>() : nullptr;
  set_rows(p.y, y);
  p.workspace = workspace.mutable_data_ptr();
  cuda::forward(p, stream_of(q));
  return {y, c};
}

template <class T>
HydraBackward backward_of(const Tensor& any_q, const Tensor& any_k, const Tensor& any_v,
                          const Tensor& feature_scale, const Tensor& c, const Tensor& any_grad_y,
                          bool with_feature_scale, const HydraOptions& options) {
  const Tensor q = with_token_rows(any_q);
  const Tensor k = with_token_rows(any_k);
  const Tensor v = with_token_rows(any_v);
  const Tensor grad_y = with_token_rows(any_grad_y);
  const Tensor scale = single_precision(feature_scale);
  const Tensor g = scale.defined() ? c * scale : c;
  const Tensor dq = empty_token_rows(q);
  const Tensor dk = empty_token_rows(k);
  const Tensor dv = empty_token_rows(v);
  const Tensor dscale = with_feature_scale ? at::empty_like(c) : at::empty({0}, c.options());
  cuda::BackwardParams<T> p{};
  p.shape = shape_of(q, options);
  const Tensor workspace =
      workspace_for(q, cuda::workspace_bytes(p.shape), cuda::workspace_zero_bytes(p.shape));
  set_rows(p.q, q);
  set_rows(p.k, k);
  set_rows(p.v, v);
  p.feature_scale = floats_of(scale);
  p.global = g.const_data_ptr<float>();
  p.sum = c.const_data_ptr<float>();
  set_rows(p.grad_y, grad_y);
  set_rows(p.grad_q, dq);
  set_rows(p.grad_k, dk);
  set_rows(p.grad_v, dv);
  p.grad_feature_scale = with_feature_scale ? dscale.mutable_data_ptr<float>() : nullptr;
  p.workspace = workspace.mutable_data_ptr();
  cuda::backward(p, stream_of(q));
  return {dq, dk, dv, with_feature_scale ? dscale.sum(0).to(feature_scale.scalar_type()) : dscale};
}

/// The kernels have no float64, and nothing to do for no values.
bool by_formula(const Tensor& q) { return q.scalar_type() == at::kDouble || q.numel() == 0; }

HydraForward forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& feature_scale,
                     const HydraOptions& options) {
  const c10::DeviceGuard guard(q.device());
  if (by_formula(q)) return hydra_formula(q, k, v, feature_scale, options);
  switch (q.scalar_type()) {
    case at::kFloat: return forward_of<float>(q, k, v, feature_scale, options);
    case at::kHalf: return forward_of<kernels::Float16>(q, k, v, feature_scale, options);
    default: return forward_of<kernels::BFloat16>(q, k, v, feature_scale, options);
  }
}

HydraBackward backward(const Tensor& q, const Tensor& k, const Tensor& v,
                       const Tensor& feature_scale, const Tensor& saved, const Tensor& grad_y,
                       bool with_feature_scale, const HydraOptions& options) {
  const c10::DeviceGuard guard(q.device());
  const auto by = [&](auto call) {
    return call(q, k, v, feature_scale, saved, grad_y, with_feature_scale, options);
  };
  if (by_formula(q)) return by(hydra_formula_backward);
  switch (q.scalar_type()) {
    case at::kFloat: return by(backward_of<float>);
    case at::kHalf: return by(backward_of<kernels::Float16>);
    default: return by(backward_of<kernels::BFloat16>);
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(hydrascope, HYDRASCOPE_DEVICE_KEY, library) {
  library.impl("_hydra_attention_forward", hydra_forward_operator<forward>);
  library.impl("_hydra_attention_backward", hydra_backward_operator<backward>);
}

}  // namespace hydrascope::model::ops
