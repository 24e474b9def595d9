// Linear attention on a GPU: kernels/linear_attention/linear_attention_cuda.h with PyTorch's memory
// and stream.
#include "kernels/linear_attention/linear_attention_cuda.h"

#include "model/ops/device_stream.h"
#include "model/ops/linear_attention.h"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace hydrascope::model::ops {
namespace {

using at::Tensor;
namespace linear_attention_cuda = kernels::linear_attention::cuda;

linear_attention_cuda::Extent extent_of(const Tensor& q, const LinearOptions& options) {
  return {q.size(0), q.size(2), q.size(2), options.weights};
}
kernels::linear_attention::Shape shape_of(const AttentionInputs& in, const LinearOptions& options) {
  return {in.q.size(1), in.q.size(3), in.v.size(3), options.rule};
}

template <class T>
AttentionForward linear_forward_of(const AttentionInputs& in, bool save,
                                   const LinearOptions& options) {
  const Tensor q = with_packed_rows(in.q);
  const Tensor k = with_packed_rows(in.k);
  const Tensor v = with_packed_rows(in.v);
  // The kernels keep their sums in `state`, whether anybody reads them later or not.
  const auto [y, state, denominator] = empty_linear_outputs(in, /*save=*/true, options);
  linear_attention_cuda::ForwardParams<T> p{};
  p.shape = shape_of(in, options);
  p.extent = extent_of(q, options);
  TORCH_INTERNAL_ASSERT(linear_attention_cuda::state_floats(p.shape, p.extent) ==
                        static_cast<std::size_t>(state.numel()));
  const Tensor workspace =
      workspace_for(q, linear_attention_cuda::workspace_bytes<T>(p.shape, p.extent));
  set_rows(p.q, q);
  set_rows(p.k, k);
  set_rows(p.v, v);
  set_rows(p.y, y);
  p.state = state.mutable_data_ptr<float>();
  p.denominator = save ? denominator.mutable_data_ptr<float>() : nullptr;
  p.workspace = workspace.mutable_data_ptr();
  linear_attention_cuda::forward(p, stream_of(q));
  if (save) return {y, state, denominator};
  const Tensor none = at::empty({0}, state.options());
  return {y, none, at::empty({0}, denominator.options())};
}

template <class T>
AttentionBackward linear_backward_of(const AttentionInputs& in, const AttentionSaved& saved,
                                     const LinearOptions& options) {
  const Tensor q = with_packed_rows(in.q);
  const Tensor k = with_packed_rows(in.k);
  const Tensor v = with_packed_rows(in.v);
  const Tensor y = with_packed_rows(saved.y);
  const Tensor grad_y = with_packed_rows(saved.grad_y);
  const Tensor dq = empty_token_rows(q);
  const Tensor dk = empty_token_rows(k);
  const Tensor dv = empty_token_rows(v);
  linear_attention_cuda::BackwardParams<T> p{};
  p.shape = shape_of(in, options);
  p.extent = extent_of(q, options);
  const Tensor workspace =
      workspace_for(q, linear_attention_cuda::backward_workspace_bytes<T>(p.shape, p.extent));
  set_rows(p.q, q);
  set_rows(p.k, k);
  set_rows(p.v, v);
  set_rows(p.y, y);
  p.state = saved.sums.const_data_ptr<float>();
  p.denominator = saved.denominator.const_data_ptr<float>();
  set_rows(p.grad_y, grad_y);
  set_rows(p.grad_q, dq);
  set_rows(p.grad_k, dk);
  set_rows(p.grad_v, dv);
  p.workspace = workspace.mutable_data_ptr();
  linear_attention_cuda::backward(p, stream_of(q));
  return {dq, dk, dv, at::empty({0}, saved.sums.options())};
}

/// Whether there are no kernels, or no values and so nothing to do.
bool without_kernels(const AttentionInputs& in, const LinearOptions& options) {
  if (in.q.numel() == 0 || in.v.numel() == 0) return true;
  const auto shape = shape_of(in, options);
  const linear_attention_cuda::Extent extent = extent_of(in.q, options);
  switch (in.q.scalar_type()) {
    case at::kFloat: return !linear_attention_cuda::serves<float>(shape, extent);
    case at::kHalf: return !linear_attention_cuda::serves<kernels::Float16>(shape, extent);
    case at::kBFloat16: return !linear_attention_cuda::serves<kernels::BFloat16>(shape, extent);
    default: return true;
  }
}

AttentionForward linear_on_gpu(const AttentionInputs& in, bool save, const LinearOptions& options) {
  const c10::DeviceGuard guard(in.q.device());
  if (without_kernels(in, options)) return linear_by_formula(in, save, options);
  switch (in.q.scalar_type()) {
    case at::kFloat: return linear_forward_of<float>(in, save, options);
    case at::kHalf: return linear_forward_of<kernels::Float16>(in, save, options);
    default: return linear_forward_of<kernels::BFloat16>(in, save, options);
  }
}

AttentionBackward linear_gradient_on_gpu(const AttentionInputs& in, const AttentionSaved& saved,
                                         const LinearOptions& options) {
  const c10::DeviceGuard guard(in.q.device());
  if (without_kernels(in, options) || in.q.scalar_type() == at::kHalf)
    return linear_gradient_by_formula(in, saved, options);
  if (in.q.scalar_type() == at::kFloat) return linear_backward_of<float>(in, saved, options);
  return linear_backward_of<kernels::BFloat16>(in, saved, options);
}

}  // namespace

TORCH_LIBRARY_IMPL(hydrascope, HYDRASCOPE_DEVICE_KEY, library) {
  library.impl("_linear_attention_forward", Operators<LinearOptions>::forward<linear_on_gpu>);
  library.impl("_linear_attention_backward",
               Operators<LinearOptions>::backward<linear_gradient_on_gpu>);
}

}  // namespace hydrascope::model::ops
