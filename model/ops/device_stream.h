// The stream that PyTorch works on, by c10's interfaces for any device: libc10_cuda is not linked,
// so that the library loads beside a PyTorch without CUDA.
#pragma once

#include "kernels/device/stream.h"

#include <ATen/core/Tensor.h>

namespace hydrascope::model::ops {

/// The current stream of x's device; null, the default stream, for devices without streams.
kernels::device::Stream stream_of(const at::Tensor& x);

/// Memory that kernels work in, its first `zero_bytes` zero; released memory is reused on the same
/// stream only, after the kernels.
at::Tensor workspace_for(const at::Tensor& x, std::size_t bytes, std::size_t zero_bytes = 0);

}  // namespace hydrascope::model::ops
