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

template <class T>
AttentionForward hydra_forward_of(const AttentionInputs& in, const HydraOptions& options) {
  const Tensor q = with_packed_rows(in.q);
  const Tensor k = with_packed_rows(in.k);
  const Tensor v = with_packed_rows(in.v);
  const Tensor scale = in.feature_scale ? in.feature_scale->to(at::kFloat).contiguous() : Tensor();
  const Tensor y = empty_token_rows(q);
  hydra_cuda::ForwardParams<T> p{};
  p.shape = {q.size(0),      q.size(2),      q.size(2), q.size(1) * q.size(3),
             options.kernel, options.weights};
  const Tensor c = at::empty({p.shape.images, p.shape.dim}, q.options().dtype(at::kFloat));
  const Tensor g = scale.defined() ? at::empty_like(c) : c;
  const Tensor workspace = workspace_for(q, hydra_cuda::workspace_bytes(p.shape),
                                         hydra_cuda::workspace_zero_bytes(p.shape));
  set_rows(p.q, q);
  set_rows(p.k, k);
  set_rows(p.v, v);
  p.feature_scale = scale.defined() ? scale.const_data_ptr<float>() : nullptr;
  p.global = g.mutable_data_ptr<float>();
  p.sum = scale.defined() ? c.mutable_data_ptr<float>() : nullptr;
  set_rows(p.y, y);
  p.workspace = workspace.mutable_data_ptr();
  hydra_cuda::forward(p, stream_of(q));
  return {y, c};
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

}  // namespace

TORCH_LIBRARY_IMPL(hydrascope, HYDRASCOPE_DEVICE_KEY, library) {
  library.impl("_hydra_attention_forward", Operators<HydraOptions>::forward<hydra_on_gpu>);
}

}  // namespace hydrascope::model::ops
