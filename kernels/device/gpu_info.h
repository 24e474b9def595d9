// The NVIDIA GPUs that the CUDA driver shows, and why there are none.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hydrascope::kernels::device {

struct Gpu {
  int index = 0;
  std::string name;
  int major = 0;  ///< compute capability
  int minor = 0;
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
};

struct GpuInfo {
  bool built_in = false;  ///< this build holds the CUDA parts
  std::string runtime;    ///< CUDA runtime version "13.0", empty without CUDA
  std::string driver;     ///< newest CUDA version the driver serves, empty without a driver
  std::vector<Gpu> gpus;
  std::string why_none;  ///< empty when there is at least one GPU
};

/// Never throws; asks the driver once per call.
GpuInfo gpu_info();

}  // namespace hydrascope::kernels::device
