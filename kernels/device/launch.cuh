// Launching a kernel: on the GPU, or, in builds that emulate blocks, on the host.
#pragma once

#include "kernels/device/cuda_language.cuh"
#include "kernels/device/geometry.h"
#include "kernels/device/launch.h"
#include "kernels/device/stream.h"

#include <type_traits>

namespace hydrascope::kernels::device {

/// Runs kernel(params) with `geometry` on `stream`; see launch.h. `name` is what errors and
/// profiles show.
template <class Params>
void launch(const char* name, void (*kernel)(Params), const Geometry& geometry, Stream stream,
            const std::type_identity_t<Params>& params) {
#ifdef __CUDACC__
  Params copy = params;
  void* arguments[] = {&copy};
  launch_kernel(name, reinterpret_cast<const void*>(kernel), geometry, stream, arguments);
#else
  static_cast<void>(stream);
  check_geometry(name, geometry);
  emulator::launch(name, geometry, [&] { kernel(params); });
#endif
}

}  // namespace hydrascope::kernels::device
