// How the CUDA kernel of overlay_cuda.h is laid over a picture. Free of CUDA.
#pragma once

#include "kernels/device/geometry.h"

#include <cstdint>

namespace hydrascope::kernels::overlay::cuda {

inline constexpr int kThreads = 256;  ///< one a colour
/// Pixels of a thread at a time: 12 bytes, the fewest that are whole words.
inline constexpr int kGroup = 4;
/// Groups of a thread, a block's width apart: what loading the colours costs is shared by these.
inline constexpr int kGroups = 4;

/// Groups of all rows, one after the other; a row ends with one that may be part of a group.
constexpr std::int64_t groups_of(std::int64_t height, std::int64_t width) {
  return height * device::ceil_div(width, kGroup);
}

constexpr device::Geometry geometry(std::int64_t height, std::int64_t width) {
  return {{device::ceil_div(groups_of(height, width), kThreads * kGroups), 1, 1}, {kThreads, 1, 1}};
}

}  // namespace hydrascope::kernels::overlay::cuda
