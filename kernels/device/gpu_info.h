// The NVIDIA GPUs that the CUDA driver shows, or the reason why there are none.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::kernels::device {

struct Gpu {
  int index = 0;
  std::string name;
  int major = 0;  ///< compute capability
  int minor = 0;
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  bool has_code = false;  ///< this build holds kernels that run on it
};

struct GpuInfo {
  bool built_in = false;      ///< this build holds the CUDA parts
  std::string runtime;        ///< CUDA runtime version "13.0", empty without CUDA
  std::string driver;         ///< newest CUDA version the driver serves, empty without a driver
  std::string architectures;  ///< compiled into kernels: "80, 86-real, ..."
  std::vector<Gpu> gpus;
  std::string why_none;  ///< empty when there is at least one GPU
};

/// Whether a build for `architectures` (CMAKE_CUDA_ARCHITECTURES, separated by commas) runs on
/// compute capability major.minor: machine code serves its own major version from its minor one on
/// ("90a": 9.0 alone), PTX (no suffix, or "-virtual") everything from its version on.
bool has_code_for(std::string_view architectures, int major, int minor);

/// Never throws; asks the driver once per call.
GpuInfo gpu_info();

}  // namespace hydrascope::kernels::device
