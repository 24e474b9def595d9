// The geometry of the CUDA kernels of patchify_cuda.h, and the constants of the patch sizes that
// they are compiled for. Free of CUDA.
#pragma once

#include "kernels/device/geometry.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace hydrascope::kernels::patchify::cuda {

inline constexpr int kThreads = 256;

/// The largest power of two that divides `value`, at most `limit` (a power of two).
constexpr int common_power_of_two(int value, int limit) {
  int power = limit;
  while (value % power != 0) power /= 2;
  return power;
}

/// Constants of a known patch size for divisions and accesses. `size`: sizeof(T).
template <int patch, int size>
struct PatchShape {
  static constexpr int kArea = patch * patch;
  /// Neighbouring values of a channel that one store writes: whole planes, whole rows of y and so
  /// all of y are multiples of it (8 of 16 bits for patches of 8, 16, 32; 4 for 14: 196 = 4 * 49).
  static constexpr int kPack = common_power_of_two(kArea, 16 / size);
  /// The number of these values that lie in one row of the patch (14: 2).
  static constexpr int kUnit = common_power_of_two(patch, kPack);
  static constexpr int kPacksOfPlane = kArea / kPack;
};

/// from_pixels: a block's part of the image in shared memory, `patch` image rows of some patches.
template <int patch>
struct PixelTile {
  /// About 12 KiB: several blocks per multiprocessor, and 16 patches of 16 per block, so that the
  /// 14 columns of a 224-pixel image are one run.
  static constexpr int kPatches = patch <= 8 ? 64 : patch <= 16 ? 16 : 4;
  static constexpr int kRowBytes = 3 * patch * kPatches;
  /// Padding behind each row, so that the lanes of a warp, which read units of 24 (12 in float32)
  /// bytes at (row, column) of a patch, meet every bank once: rows lie 4 words apart modulo 32
  /// where a patch row is two (four) units wide, 24 words apart where it is four (eight).
  static constexpr int kPadding = patch == 32 ? 96 : 16;
  static constexpr int kStride = kRowBytes + kPadding;
  static_assert(kRowBytes % 16 == 0 && kStride % 16 == 0);
};

/// Blocks: runs of `patches` along each row of the grid, row after row, image after image.
constexpr device::Geometry pixel_geometry(std::int64_t images, std::int64_t grid_rows,
                                          std::int64_t grid_columns, std::int64_t patches) {
  return {{images * grid_rows * device::ceil_div(grid_columns, patches), 1, 1}, {kThreads, 1, 1}};
}

/// Threads: packs of y in their order, `count` of them.
constexpr device::Geometry pack_geometry(std::int64_t count) {
  return {{device::ceil_div(count, kThreads), 1, 1}, {kThreads, 1, 1}};
}

/// The sizes of patches that kernels are compiled for.
inline constexpr int kPatchSizes[] = {8, 14, 16, 32};
constexpr bool serves(std::int64_t patch_size) {
  return std::ranges::find(kPatchSizes, patch_size) != std::end(kPatchSizes);
}

}  // namespace hydrascope::kernels::patchify::cuda
