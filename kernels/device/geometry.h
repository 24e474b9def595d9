// The geometry of a launch: extents of the grid and of its blocks. Plain numbers, computed by each
// kernel's constexpr host function and tested without a GPU.
#pragma once

#include <cstdint>
#include <string>

namespace hydrascope::kernels::device {

struct Extent {
  std::int64_t x = 1;
  std::int64_t y = 1;
  std::int64_t z = 1;
};

struct Geometry {
  Extent grid;
  Extent block;
};

/// The reason why CUDA would refuse it (CUDA C++ Programming Guide, table "Technical Specifications
/// per Compute Capability"; the same for 8.0 to 12.0); empty if it is legal.
inline std::string illegal(const Geometry& geometry) {
  const auto& [grid, block] = geometry;
  const auto outside = [](std::int64_t value, std::int64_t limit) {
    return value < 1 || value > limit;
  };
  const auto text = [](const char* what, const Extent& extent) {
    return std::string(what) + " " + std::to_string(extent.x) + " x " + std::to_string(extent.y) +
           " x " + std::to_string(extent.z);
  };
  if (outside(grid.x, 2147483647) || outside(grid.y, 65535) || outside(grid.z, 65535))
    return text("grid", grid);
  if (outside(block.x, 1024) || outside(block.y, 1024) || outside(block.z, 64) ||
      block.x * block.y * block.z > 1024)
    return text("block", block);
  return {};
}

/// Multiprocessors of an H100 and an H200. Grids and splits use this number, never the GPU's own,
/// so that results do not depend on the GPU.
inline constexpr std::int64_t kMultiprocessors = 132;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace hydrascope::kernels::device
