#include "kernels/device/gpu_info.h"

#include <algorithm>

#ifdef HYDRASCOPE_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

namespace hydrascope::kernels::device {

bool has_code_for(std::string_view architectures, int major, int minor) {
  const int wanted = 10 * major + minor;
  while (!architectures.empty()) {
    const std::size_t end = architectures.find(',');
    std::string_view word = architectures.substr(0, end);
    architectures = end == std::string_view::npos ? "" : architectures.substr(end + 1);
    word.remove_prefix(std::min(word.find_first_not_of(' '), word.size()));
    int built = 0;
    std::size_t digits = 0;
    for (; digits < word.size() && word[digits] >= '0' && word[digits] <= '9'; ++digits)
      built = 10 * built + (word[digits] - '0');
    const std::string_view suffix = word.substr(digits);
    const bool one_only = suffix.starts_with("a");
    const bool real = !suffix.ends_with("-virtual");
    const bool ptx = !suffix.ends_with("-real");
    if (one_only ? built == wanted
                 : (real && built / 10 == major && built <= wanted) || (ptx && built <= wanted))
      return true;
  }
  return false;
}

#ifdef HYDRASCOPE_WITH_CUDA
namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

GpuInfo gpu_info() {
  GpuInfo info;
  info.built_in = true;
  info.architectures = HYDRASCOPE_CUDA_ARCHITECTURES;
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
                         properties.multiProcessorCount, properties.totalGlobalMem,
                         has_code_for(info.architectures, properties.major, properties.minor)});
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
