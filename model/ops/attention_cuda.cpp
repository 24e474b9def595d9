// Hydra and linear attention on a GPU: kernels/hydra/hydra_cuda.h and
// kernels/linear_attention/linear_attention_cuda.h with PyTorch's memory and stream.
#include "kernels/device/stream.h"
#include "kernels/hydra/hydra_cuda.h"
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "model/ops/hydra_attention.h"
#include "model/ops/linear_attention.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

namespace hydrascope::model::ops {
namespace {

using at::Tensor;
namespace hydra_cuda = kernels::hydra::cuda;
namespace linear_attention_cuda = kernels::linear_attention::cuda;

/// The current stream of x's device; null, the default stream, for devices without streams. By c10's
/// interfaces for any device: libc10_cuda is not linked, so that the library loads beside a PyTorch
/// without CUDA.
kernels::device::Stream stream_of(const Tensor& x) {
  if (x.device().is_cpu()) return nullptr;
  const c10::Stream stream = c10::impl::VirtualGuardImpl(x.device().type()).getStream(x.device());
  return static_cast<kernels::device::Stream>(stream.native_handle());
}

/// Memory that kernels work in, its first `zero_bytes` zero; released memory is reused on the same
/// stream only, after the kernels.
Tensor workspace_for(const Tensor& x, std::size_t bytes, std::size_t zero_bytes = 0) {
  Tensor workspace = at::empty({static_cast<std::int64_t>(bytes)}, x.options().dtype(at::kByte));
  if (zero_bytes > 0) workspace.narrow(0, 0, static_cast<std::int64_t>(zero_bytes)).zero_();
  return workspace;
}

template <class T>
AttentionForward hydra_forward_of(const AttentionInputs& in, const HydraSums& family) {
  if (in.q.numel() == 0 || !hydra_cuda::serves<T>(in.q.size(1) * in.q.size(3)))
    return family.formula(in);
  const Tensor q = with_packed_rows(in.q);
  const Tensor k = with_packed_rows(in.k);
  const Tensor v = with_packed_rows(in.v);
  const Tensor scale = in.feature_scale ? in.feature_scale->to(at::kFloat).contiguous() : Tensor();
  const Tensor y = empty_token_rows(q);
  hydra_cuda::ForwardParams<T> p{};
  p.shape = {q.size(0),       q.size(2),       q.size(2), q.size(1) * q.size(3),
             family.kernel(), family.weights()};
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

AttentionForward hydra_on_gpu(const AttentionInputs& in, const HydraSums& family) {
  const c10::DeviceGuard guard(in.q.device());
  switch (in.q.scalar_type()) {
    case at::kFloat: return hydra_forward_of<float>(in, family);
    case at::kHalf: return hydra_forward_of<kernels::Float16>(in, family);
    case at::kBFloat16: return hydra_forward_of<kernels::BFloat16>(in, family);
    default: return family.formula(in);
  }
}

template <class T>
AttentionForward linear_forward_of(const AttentionInputs& in, const LinearSums& family) {
  linear_attention_cuda::ForwardParams<T> p{};
  p.shape = {in.q.size(1), in.q.size(3), in.v.size(3), family.rule()};
  p.extent = {in.q.size(0), in.q.size(2), in.q.size(2), family.weights()};
  if (in.q.numel() == 0 || !linear_attention_cuda::serves<T>(p.shape, p.extent))
    return family.formula(in);
  const Tensor q = with_packed_rows(in.q);
  const Tensor k = with_packed_rows(in.k);
  const Tensor v = with_packed_rows(in.v);
  // The kernels keep their sums in `state`, whether they are saved or not.
  const Tensor y = empty_token_rows(in.v);
  const Tensor state = family.empty_sums(in);
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
  return {y, state};
}

AttentionForward linear_on_gpu(const AttentionInputs& in, bool, const LinearSums& family) {
  const c10::DeviceGuard guard(in.q.device());
  switch (in.q.scalar_type()) {
    case at::kHalf: return linear_forward_of<kernels::Float16>(in, family);
    case at::kBFloat16: return linear_forward_of<kernels::BFloat16>(in, family);
    default: return family.formula(in);
  }
}

// The tensors that the kernels serve: CUDA's, or the CPU's if the kernels run on the tests' block
// emulator.
#ifdef HYDRASCOPE_EMULATED
constexpr at::DeviceType kDevice = at::kCPU;
#else
constexpr at::DeviceType kDevice = at::kCUDA;
#endif
[[maybe_unused]] const bool kKernels = (kernels_of(kDevice) = {hydra_on_gpu, linear_on_gpu}, true);

}  // namespace

// Tests ask whether the kernels are built.
TORCH_LIBRARY_FRAGMENT(hydrascope, library) {
  library.def("_has_gpu_kernels", [] { return true; });
}

}  // namespace hydrascope::model::ops
