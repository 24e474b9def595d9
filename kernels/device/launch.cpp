#include "kernels/device/launch.h"

#include "kernels/error.h"

#include <string>

#ifdef HYDRASCOPE_WITH_CUDA
#include <cuda_runtime_api.h>

#include <nvtx3/nvToolsExt.h>
#endif

namespace hydrascope::kernels::device {

void check_geometry(const char* name, const Geometry& geometry) {
  if (const std::string why = illegal(geometry); !why.empty())
    throw Error(ErrorCode::internal, "no GPU can launch a " + why, name);
}

void require_packs(bool whole, const char* name) {
  if (!whole) throw Error(ErrorCode::internal, "rows are not whole packs of 16 bytes", name);
}

#ifdef HYDRASCOPE_WITH_CUDA

void check_cuda(int status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // an error of a launch would otherwise be met again by the next call
  const auto error = static_cast<cudaError_t>(status);
  throw Error(
      error == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::failed,
      std::string("CUDA says: ") + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")",
      what);
}

void launch_kernel(const char* name, const void* kernel, const Geometry& geometry, Stream stream,
                   void** arguments) {
  check_geometry(name, geometry);
  const auto extent = [](const Extent& e) {
    return dim3(static_cast<unsigned>(e.x), static_cast<unsigned>(e.y), static_cast<unsigned>(e.z));
  };
  nvtxRangePushA(name);
  const cudaError_t status =
      cudaLaunchKernel(kernel, extent(geometry.grid), extent(geometry.block), arguments, 0, stream);
  nvtxRangePop();
  check_cuda(status, name);
}

#else

void check_cuda(int status, const char* what) {
  if (status != 0) throw Error(ErrorCode::internal, "this build has no CUDA", what);
}

#endif

}  // namespace hydrascope::kernels::device
