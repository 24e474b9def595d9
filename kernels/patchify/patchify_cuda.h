// Pixels to rows of patches on CUDA, the input of the patch embedding's matrix product.
//
// Equation: row q of an image holds patch (q / grid_columns, q % grid_columns) in the order
//   (channel, y, x) of the patch convolution's weight (Dosovitskiy et al. 2020, arXiv 2010.11929,
//   equation 1: x_p E). A value v of channel c becomes v scale[c] + shift[c]. Values outside
//   valid_height x valid_width, and only these, are 0 whatever shift is: the mean colour.
// Tensors: see the fields; T = float, BFloat16 or Float16; patches of 8, 14, 16 or 32; y aligned to 16
//   bytes; y must not overlap the image. Pixels lie anywhere, fastest where 16 divides their address,
//   row_bytes and image_bytes (then 4, then 1).
// Geometry: 256 threads; a block takes a run of patches (16 of 16) of one row of the grid,
//   `patch_size` image rows, through up to 15 KiB of shared memory.
// Memory: P P 3 bytes read and P P 3 sizeof(T) written per patch, each once. ViT-B (P = 16) at
//   1088x1920 in bfloat16: 6.3 MB + 12.5 MB per image; two FLOPs per element: bound by memory.
// Numerics: float32, v scale + shift with one or two roundings (fused or not), one more to T.
// Tolerance: 6e-7 and a rounding to T.
// Deterministic: every value depends on one input value.
// Preconditions: as above, 3 patch_size^2 < 2^31, else Error(internal); pixels beyond valid_* are not
//   read. An empty call launches nothing. A grid that no GPU can launch (2^31 patches): Error(internal).
// Test: tests/kernels/patchify/patchify_cuda_test.cpp; twin: normalised_pixels_reference of
//   patchify_reference.h beside it.
#pragma once

#include "kernels/device/geometry.h"
#include "kernels/device/stream.h"
#include "kernels/vector/scalar_types.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace hydrascope::kernels::patchify::cuda {

/// Pixels of uint8 to normalised patch rows: value * scale[c] + shift[c], with
/// scale = 1 / (255 std), shift = -mean / std; outside `valid_*` (padding) 0.
template <class T>
struct PixelParams {
  const std::uint8_t* pixels;  ///< (images, height, width, 3)
  std::int64_t row_bytes;
  std::int64_t image_bytes;
  std::int64_t images;
  std::int64_t grid_rows;
  std::int64_t grid_columns;
  std::int64_t patch_size;
  std::int64_t valid_height;  ///< rows and columns that the pixels have; the grid may reach beyond
  std::int64_t valid_width;
  float scale[3];
  float shift[3];
  T* y;  ///< (images, grid_rows * grid_columns, 3 * patch_size^2), a row ordered (channel, y, x)
};
template <class T>
void from_pixels(const PixelParams<T>& params, device::Stream stream);

// The layout of the kernel, as numbers that tests read without a GPU.

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

/// The sizes of patches that kernels are compiled for.
inline constexpr int kPatchSizes[] = {8, 14, 16, 32};
constexpr bool serves(std::int64_t patch_size) {
  return std::ranges::find(kPatchSizes, patch_size) != std::end(kPatchSizes);
}

}  // namespace hydrascope::kernels::patchify::cuda
