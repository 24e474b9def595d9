#include "model/ops/device_stream.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace hydrascope::model::ops {

kernels::device::Stream stream_of(const at::Tensor& x) {
  if (x.device().is_cpu()) return nullptr;
  const c10::Stream stream = c10::impl::VirtualGuardImpl(x.device().type()).getStream(x.device());
  return static_cast<kernels::device::Stream>(stream.native_handle());
}

at::Tensor workspace_for(const at::Tensor& x, std::size_t bytes, std::size_t zero_bytes) {
  at::Tensor workspace =
      at::empty({static_cast<std::int64_t>(bytes)}, x.options().dtype(at::kByte));
  if (zero_bytes > 0) workspace.narrow(0, 0, static_cast<std::int64_t>(zero_bytes)).zero_();
  return workspace;
}

}  // namespace hydrascope::model::ops
