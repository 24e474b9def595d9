// It stands for a kernel's code on the host; apart from the emulator, whose words are CUDA's.
#pragma once

#include "kernels/device/geometry.h"

#include <cstddef>

namespace emulator {

struct KernelCode {
  std::size_t call_bytes;
  void (*run)(const char* name, const hydrascope::kernels::device::Geometry& geometry,
              const void* call);
};

}  // namespace emulator
