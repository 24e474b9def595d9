// The one way a kernel is launched, behind launch.cuh's template, and the checks of CUDA calls.
#pragma once

#include "kernels/device/geometry.h"
#include "kernels/device/stream.h"

namespace hydrascope::kernels::device {

/// Error(internal) that names the kernel if the geometry is illegal.
void check_geometry(const char* name, const Geometry& geometry);

/// Error(internal) that names the kernel unless its rows are whole packs of 16 bytes.
void require_packs(bool whole, const char* name);

/// `status` is a cudaError_t. Anything but success is Error(out_of_memory) or Error(failed) with
/// CUDA's message; `what` names the failed request.
void check_cuda(int status, const char* what);

/// Launches `kernel` (a __global__ function, or its stand-in on the host: launch.cuh) with
/// `arguments` (addresses of its parameters) inside an NVTX range, and checks.
void launch_kernel(const char* name, const void* kernel, const Geometry& geometry, Stream stream,
                   void** arguments);

}  // namespace hydrascope::kernels::device
