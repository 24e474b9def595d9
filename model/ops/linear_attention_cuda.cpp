// Linear attention on a GPU: kernels/linear_attention/linear_attention_cuda.h with PyTorch's memory
// and stream.
#include "kernels/linear_attention/linear_attention_cuda.h"

#include "model/ops/device_key.h"
#include "model/ops/device_stream.h"
#include "model/ops/linear_formula.h"
#include "model/ops/token_rows.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

namespace hydrascope::model::ops {
namespace {

using at::Tensor;
namespace cuda = kernels::linear_attention::cuda;

cuda::Extent extent_of(const Tensor& q, const LinearOptions& options) {
  return {q.size(0),
          q.size(2),
          q.size(2),
          options.num_prefix,
          static_cast<float>(options.prefix_weight),
          static_cast<float>(options.patch_weight)};
}

template <class T>
LinearForward forward_of(const Tensor& any_q, const Tensor& any_k, const Tensor& any_v, bool save,
                         const LinearOptions& options) {
  const Tensor q = with_token_rows(any_q);
  const Tensor k = with_token_rows(any_k);
  const Tensor v = with_token_rows(any_v);
  // The kernels keep their sums in `state`, whether anybody reads them later or not.
  const auto [y, state, denominator] = empty_linear_outputs(q, v, /*save=*/true, options);
  cuda::ForwardParams<T> p{};
  p.shape = options.shape(q.size(1), q, v);
  p.extent = extent_of(q, options);
  TORCH_INTERNAL_ASSERT(cuda::state_floats(p.shape, p.extent) ==
                        static_cast<std::size_t>(state.numel()));
  const Tensor workspace = workspace_for(q, cuda::workspace_bytes<T>(p.shape, p.extent));
  set_rows(p.q, q);
  set_rows(p.k, k);
  set_rows(p.v, v);
  set_rows(p.y, y);
  p.state = state.mutable_data_ptr<float>();
  p.denominator = save ? denominator.mutable_data_ptr<float>() : nullptr;
  p.workspace = workspace.mutable_data_ptr();
  cuda::forward(p, stream_of(q));
  if (save) return {y, state, denominator};
  const Tensor none = at::empty({0}, state.options());
  return {y, none, at::empty({0}, denominator.options())};
}

template <class T>
LinearBackward backward_of(const LinearSaved& saved, const Tensor& any_grad_y,
                           const LinearOptions& options) {
  const Tensor q = with_token_rows(saved.q);
  const Tensor k = with_token_rows(saved.k);
  const Tensor v = with_token_rows(saved.v);
  const Tensor y = with_token_rows(saved.y);
  const Tensor grad_y = with_token_rows(any_grad_y);
  const Tensor dq = empty_token_rows(q);
  const Tensor dk = empty_token_rows(k);
  const Tensor dv = empty_token_rows(v);
  cuda::BackwardParams<T> p{};
  p.shape = options.shape(q.size(1), q, v);
  p.extent = extent_of(q, options);
  const Tensor workspace = workspace_for(q, cuda::backward_workspace_bytes<T>(p.shape, p.extent));
  set_rows(p.q, q);
  set_rows(p.k, k);
  set_rows(p.v, v);
  set_rows(p.y, y);
  p.state = saved.state.const_data_ptr<float>();
  p.denominator = saved.denominator.const_data_ptr<float>();
  set_rows(p.grad_y, grad_y);
  set_rows(p.grad_q, dq);
  set_rows(p.grad_k, dk);
  set_rows(p.grad_v, dv);
  p.workspace = workspace.mutable_data_ptr();
  cuda::backward(p, stream_of(q));
  return {dq, dk, dv};
}

/// The kernels have no float64, and nothing to do for no values.
bool by_formula(const Tensor& q, const Tensor& v) {
  return q.scalar_type() == at::kDouble || q.numel() == 0 || v.numel() == 0;
}

LinearForward forward(const Tensor& q, const Tensor& k, const Tensor& v, bool save,
                      const LinearOptions& options) {
  const c10::DeviceGuard guard(q.device());
  if (by_formula(q, v)) return linear_formula(q, k, v, save, options);
  switch (q.scalar_type()) {
    case at::kFloat: return forward_of<float>(q, k, v, save, options);
    case at::kHalf: return forward_of<kernels::Float16>(q, k, v, save, options);
    default: return forward_of<kernels::BFloat16>(q, k, v, save, options);
  }
}

LinearBackward backward(const LinearSaved& saved, const Tensor& grad_y,
                        const LinearOptions& options) {
  const c10::DeviceGuard guard(saved.q.device());
  if (by_formula(saved.q, saved.v)) return linear_formula_backward(saved, grad_y, options);
  switch (saved.q.scalar_type()) {
    case at::kFloat: return backward_of<float>(saved, grad_y, options);
    case at::kHalf: return backward_of<kernels::Float16>(saved, grad_y, options);
    default: return backward_of<kernels::BFloat16>(saved, grad_y, options);
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(hydrascope, HYDRASCOPE_DEVICE_KEY, library) {
  library.impl("_linear_attention_forward", linear_forward_operator<forward>);
  library.impl("_linear_attention_backward", linear_backward_operator<backward>);
}

}  // namespace hydrascope::model::ops
