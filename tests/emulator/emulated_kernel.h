// launch_kernel (kernels/device/launch.h) gets on the host: a KernelCode, and as its only
// argument a KernelCall.
#pragma once

#include "tests/emulator/block_emulator.h"
#include "tests/emulator/kernel_code.h"

#include <type_traits>

namespace emulator {

template <class Params>
struct KernelCall {
  static_assert(std::is_trivially_copyable_v<Params>, "a GPU gets a copy of the bytes");
  void (*kernel)(Params);
  Params params;
};

template <class Params>
inline constexpr KernelCode kernel_code{
    sizeof(KernelCall<Params>),
    [](const char* name, const hydrascope::kernels::device::Geometry& geometry, const void* call) {
      const auto& all = *static_cast<const KernelCall<Params>*>(call);
      launch(name, geometry, [&all] { all.kernel(all.params); });
    }};

}  // namespace emulator
