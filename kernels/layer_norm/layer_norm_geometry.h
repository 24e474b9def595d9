// How the CUDA kernels of layer_norm_cuda.h are laid over rows. Free of CUDA.
#pragma once

#include "kernels/device/geometry.h"

#include <cstdint>

namespace hydrascope::kernels::layer_norm::cuda {

/// One warp per row: its two sums need no shared memory and no barrier, and what hides the latency
/// of memory is the other warps of the multiprocessor. Blocks are small so that few rows (197 of
/// one picture) still reach many multiprocessors, and that few registers are lost to rounding.
inline constexpr std::int64_t kRowsPerBlock = 4;
inline constexpr int kThreads = 32 * kRowsPerBlock;

constexpr device::Geometry geometry(std::int64_t rows) {
  return {{device::ceil_div(rows, kRowsPerBlock), 1, 1}, {kThreads, 1, 1}};
}

/// Packs of 16 bytes that a lane holds, as the kernels are compiled: exact for the widths of
/// vision transformers (192, 384, 768, 1024, 1280 or 1536, 2048), the next larger for all others.
/// 64 values of 16 bits or 48 of float32 are the most: beyond, registers would cost more warps
/// than the second and third reading of the row costs.
inline constexpr int kPacksOf16Bits[] = {1, 2, 3, 4, 6, 8};
inline constexpr int kPacksOfFloats[] = {2, 3, 6, 8, 12};

/// The smallest of those that hold a row of `dim` values of `size` bytes; 0: none, or `dim` is not
/// a whole number of packs.
constexpr int packs_per_lane(std::int64_t dim, std::int64_t size) {
  const std::int64_t pack = 16 / size;
  if (dim % pack != 0) return 0;
  const std::int64_t needed = device::ceil_div(dim / pack, 32);
  if (size == 2) {
    for (const int packs : kPacksOf16Bits)
      if (needed <= packs) return packs;
  } else {
    for (const int packs : kPacksOfFloats)
      if (needed <= packs) return packs;
  }
  return 0;
}

}  // namespace hydrascope::kernels::layer_norm::cuda
