// Hydra attention on a GPU: kernels/hydra/hydra_cuda.h with PyTorch's memory and stream.
#include "kernels/hydra/hydra_cuda.h"
#include "model/ops/device_stream.h"
#include "model/ops/hydra_attention.h"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace hydrascope::model::ops {
namespace {

using at::Tensor;
namespace hydra_cuda = kernels::hydra::cuda;

const float* floats_of(const Tensor& x) {
  return x.defined() ? x.const_data_ptr<float>() : nullptr;
}

/// feature_scale as the kernels read it, undefined if there is none.
Tensor single_precision(const std::optional<Tensor>& feature_scale) {
  return feature_scale ? feature_scale->to(at::kFloat).contiguous() : Tensor();
}

hydra_cuda::Shape hydra_shape(const Tensor& q, const HydraOptions& options) {
  return {q.size(0), q.size(2), q.size(2), q.size(1) * q.size(3), options.kernel, options.weights};
}

template <class T>
AttentionForward hydra_forward_of(const AttentionInputs& in, const HydraOptions& options) {
  const Tensor q = with_packed_rows(in.q);
  const Tensor k = with_packed_rows(in.k);
  const Tensor v = with_packed_rows(in.v);
  const Tensor scale = single_precision(in.feature_scale);
  const Tensor y = empty_token_rows(q);
  hydra_cuda::ForwardParams<T> p{};
  p.shape = hydra_shape(q, options);
  const Tensor c = at::empty({p.shape.images, p.shape.dim}, q.options().dtype(at::kFloat));
  const Tensor g = scale.defined() ? at::empty_like(c) : c;
  const Tensor workspace = workspace_for(q, hydra_cuda::workspace_bytes(p.shape),
                                         hydra_cuda::workspace_zero_bytes(p.shape));
  set_rows(p.q, q);
  set_rows(p.k, k);
  set_rows(p.v, v);
  p.feature_scale = floats_of(scale);
  p.global = g.mutable_data_ptr<float>();
  p.sum = scale.defined() ? c.mutable_data_ptr<float>() : nullptr;
  set_rows(p.y, y);
  p.workspace = workspace.mutable_data_ptr();
  hydra_cuda::forward(p, stream_of(q));
  return {y, c, at::empty({0}, c.options())};
}

template <class T>
AttentionBackward hydra_backward_of(const AttentionInputs& in, const AttentionSaved& saved,
                                    const HydraOptions& options) {
  const Tensor q = with_packed_rows(in.q);
  const Tensor k = with_packed_rows(in.k);
  const Tensor v = with_packed_rows(in.v);
  const Tensor grad_y = with_packed_rows(saved.grad_y);
  const Tensor& c = saved.sums;
  const Tensor scale = single_precision(in.feature_scale);
  const Tensor g = scale.defined() ? c * scale : c;
  const Tensor dq = empty_token_rows(q);
  const Tensor dk = empty_token_rows(k);
  const Tensor dv = empty_token_rows(v);
  const Tensor dscale = saved.with_feature_scale ? at::empty_like(c) : at::empty({0}, c.options());
  hydra_cuda::BackwardParams<T> p{};
  p.shape = hydra_shape(q, options);
  const Tensor workspace = workspace_for(q, hydra_cuda::workspace_bytes(p.shape),
                                         hydra_cuda::workspace_zero_bytes(p.shape));
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
  p.grad_feature_scale = saved.with_feature_scale ? dscale.mutable_data_ptr<float>() : nullptr;
  p.workspace = workspace.mutable_data_ptr();
  hydra_cuda::backward(p, stream_of(q));
  return {dq, dk, dv,
          saved.with_feature_scale ? dscale.sum(0).to(in.feature_scale->scalar_type()) : dscale};
}

/// Whether there are no kernels, or no values and so nothing to do.
bool hydra_by_formula(const Tensor& q) {
  const std::int64_t dim = q.size(1) * q.size(3);
  switch (q.scalar_type()) {
    case at::kFloat: return q.numel() == 0 || !hydra_cuda::serves<float>(dim);
    case at::kHalf:
    case at::kBFloat16: return q.numel() == 0 || !hydra_cuda::serves<kernels::BFloat16>(dim);
    default: return true;
  }
}

AttentionForward hydra_on_gpu(const AttentionInputs& in, bool save, const HydraOptions& options) {
  const c10::DeviceGuard guard(in.q.device());
  if (hydra_by_formula(in.q)) return hydra_formula(in, save, options);
  switch (in.q.scalar_type()) {
    case at::kFloat: return hydra_forward_of<float>(in, options);
    case at::kHalf: return hydra_forward_of<kernels::Float16>(in, options);
    default: return hydra_forward_of<kernels::BFloat16>(in, options);
  }
}

AttentionBackward hydra_gradient_on_gpu(const AttentionInputs& in, const AttentionSaved& saved,
                                        const HydraOptions& options) {
  const c10::DeviceGuard guard(in.q.device());
  if (hydra_by_formula(in.q) || in.q.scalar_type() == at::kHalf)
    return hydra_formula_backward(in, saved, options);
  if (in.q.scalar_type() == at::kFloat) return hydra_backward_of<float>(in, saved, options);
  return hydra_backward_of<kernels::BFloat16>(in, saved, options);
}

}  // namespace

TORCH_LIBRARY_IMPL(hydrascope, HYDRASCOPE_DEVICE_KEY, library) {
  library.impl("_hydra_attention_forward", Operators<HydraOptions>::forward<hydra_on_gpu>);
  library.impl("_hydra_attention_backward",
               Operators<HydraOptions>::backward<hydra_gradient_on_gpu>);
}

}  // namespace hydrascope::model::ops
