#include "model/ops/device_stream.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace hydrascope::model::ops {

kernels::device::Stream stream_of(const at::Tensor& x) {
  if (x.device().is_cpu()) return nullptr;
  const c10::Stream stream = c10::impl::VirtualGuardImpl(x.device().type()).getStream(x.device());
  return static_cast<kernels::device::Stream>(stream.native_handle());
}

at::Tensor workspace_for(const at::Tensor& x, std::size_t bytes) {
  return at::zeros({static_cast<std::int64_t>(bytes)}, x.options().dtype(at::kByte));
}

}  // namespace hydrascope::model::ops
