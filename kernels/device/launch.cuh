// Launching a kernel: on the GPU, or, in builds that emulate blocks, on the host.
#pragma once

#include "kernels/device/cuda_language.cuh"
#include "kernels/device/geometry.h"
#include "kernels/device/launch.h"
#include "kernels/device/stream.h"

#include <type_traits>

#ifndef __CUDACC__
#include <emulated_kernel.h>
#endif

namespace hydrascope::kernels::device {

/// Runs kernel(params) with `geometry` on `stream`; see launch.h. Errors and profiles show `name`.
template <class Params>
void launch(const char* name, void (*kernel)(Params), const Geometry& geometry, Stream stream,
            const std::type_identity_t<Params>& params) {
#ifdef __CUDACC__
  Params call = params;
  const auto* code = reinterpret_cast<const void*>(kernel);
#else
  emulator::KernelCall<Params> call{kernel, params};
  const void* code = &emulator::kernel_code<Params>;
#endif
  void* arguments[] = {&call};
  launch_kernel(name, code, geometry, stream, arguments);
}

}  // namespace hydrascope::kernels::device
