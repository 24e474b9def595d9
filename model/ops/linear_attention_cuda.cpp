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

template <class T>
AttentionForward linear_forward_of(const AttentionInputs& in, bool save,
                                   const LinearOptions& options) {
  linear_attention_cuda::ForwardParams<T> p{};
  p.shape = {in.q.size(1), in.q.size(3), in.v.size(3), options.rule};
  p.extent = {in.q.size(0), in.q.size(2), in.q.size(2), options.weights};
  if (in.q.numel() == 0 || !linear_attention_cuda::serves<T>(p.shape, p.extent))
    return linear_by_formula(in, save, options);
  const Tensor q = with_packed_rows(in.q);
  const Tensor k = with_packed_rows(in.k);
  const Tensor v = with_packed_rows(in.v);
  // The kernels keep their sums in `state`, whether anybody reads them later or not.
  const auto [y, state] = empty_linear_outputs(in, /*save=*/true, options);
  TORCH_INTERNAL_ASSERT(linear_attention_cuda::state_floats(p.shape, p.extent) ==
                        static_cast<std::size_t>(state.numel()));
  const Tensor workspace =
      workspace_for(q, linear_attention_cuda::workspace_bytes(p.shape, p.extent));
  set_rows(p.q, q);
  set_rows(p.k, k);
  set_rows(p.v, v);
  set_rows(p.y, y);
  p.state = state.mutable_data_ptr<float>();
  p.workspace = workspace.mutable_data_ptr();
  linear_attention_cuda::forward(p, stream_of(q));
  return {y, save ? state : at::empty({0}, state.options())};
}

AttentionForward linear_on_gpu(const AttentionInputs& in, bool save, const LinearOptions& options) {
  const c10::DeviceGuard guard(in.q.device());
  switch (in.q.scalar_type()) {
    case at::kHalf: return linear_forward_of<kernels::Float16>(in, save, options);
    case at::kBFloat16: return linear_forward_of<kernels::BFloat16>(in, save, options);
    default: return linear_by_formula(in, save, options);
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(hydrascope, HYDRASCOPE_DEVICE_KEY, library) {
  library.impl("_linear_attention_forward", Operators<LinearOptions>::forward<linear_on_gpu>);
}

}  // namespace hydrascope::model::ops
