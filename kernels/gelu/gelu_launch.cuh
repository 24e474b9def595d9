// The launch of gelu.cuh.
#pragma once

#include "kernels/device/launch.cuh"
#include "kernels/gelu/gelu.cuh"
#include "kernels/gelu/gelu_cuda.h"

namespace hydrascope::kernels::gelu::cuda {

inline void launch(float* values, std::int64_t count, device::Stream stream) {
  if (count <= 0) return;
  const Parts cut = parts(reinterpret_cast<std::uintptr_t>(values), count, sizeof(float));
  device::launch("gelu_kernel", gelu_kernel, geometry(cut.packs), stream, GeluParams{values, cut});
}

}  // namespace hydrascope::kernels::gelu::cuda
