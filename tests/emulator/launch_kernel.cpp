// Launches where no stand-in for the CUDA runtime (tests/stand_in) has streams: at once.
#include "kernels/device/launch.h"
#include "tests/emulator/emulated_kernel.h"

namespace hydrascope::kernels::device {

void launch_kernel(const char* name, const void* kernel, const Geometry& geometry,
                   Stream /*stream*/, void** arguments) {
  check_geometry(name, geometry);
  static_cast<const emulator::KernelCode*>(kernel)->run(name, geometry, *arguments);
}

}  // namespace hydrascope::kernels::device
