// The kernels of the emulator's own tests: lambdas, in place of functions with
// parameters.
#pragma once

#include "kernels/device/block.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/tensor_core.cuh"
#include "kernels/error.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace hydrascope::kernels::test {

/// The shared memory of a block.
struct BlockParts {
  float values[64];
};
struct alignas(16) BlockTile {
  float values[32 * 4 * 2];
};

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSeesAddresses = true;
#else
inline constexpr bool kSeesAddresses = false;
#endif
#ifdef __SANITIZE_THREAD__
inline constexpr bool kSeesRaces = true;
#else
inline constexpr bool kSeesRaces = false;
#endif
inline constexpr unsigned kAllSchedules[] = {0, 1, 2, 3, 100, 101};

using device::Extent;

template <class Kernel>
void run(Extent grid, Extent block, const Kernel& kernel) {
  emulator::launch("small_kernel", {grid, block}, kernel);
}

/// The emulator's complaint; empty: none.
template <class Kernel>
std::string failure_of(Extent grid, Extent block, const Kernel& kernel) {
  try {
    run(grid, block, kernel);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal);
    EXPECT_EQ(error.subject(), "small_kernel");
    return error.what();
  }
  return {};
}

/// Under how many schedules `right()`, which runs a kernel, is false.
template <class Right>
int wrong_schedules(const Right& right) {
  int wrong = 0;
  for (const unsigned schedule : kAllSchedules) {
    emulator::set_schedule(schedule);
    if (!right()) ++wrong;
  }
  emulator::set_schedule(0);
  return wrong;
}

}  // namespace hydrascope::kernels::test
