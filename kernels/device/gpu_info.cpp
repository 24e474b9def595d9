#include "kernels/device/gpu_info.h"

#ifdef HYDRASCOPE_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

namespace hydrascope::kernels::device {

#ifdef HYDRASCOPE_WITH_CUDA
namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

GpuInfo gpu_info() {
  GpuInfo info;
  info.built_in = true;
  int version = 0;
  if (cudaRuntimeGetVersion(&version) == cudaSuccess) info.runtime = version_text(version);
  // 0 means that no driver is installed, which is no error to CUDA.
  if (cudaDriverGetVersion(&version) == cudaSuccess && version > 0)
    info.driver = version_text(version);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    info.why_none = info.driver.empty() ? "no NVIDIA driver is loaded" : cudaGetErrorString(status);
    return info;
  }
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) continue;
    info.gpus.push_back({index, properties.name, properties.major, properties.minor,
                         properties.multiProcessorCount, properties.totalGlobalMem});
  }
  if (info.gpus.empty()) info.why_none = "the driver shows no GPU";
  return info;
}
#else
GpuInfo gpu_info() {
  GpuInfo info;
  info.why_none = "this build has no CUDA (HYDRASCOPE_CUDA)";
  return info;
}
#endif

}  // namespace hydrascope::kernels::device
