// How the CUDA kernels of token_rows_cuda.h are laid over rows. Free of CUDA.
#pragma once

#include "kernels/device/geometry.h"

#include <cstdint>

namespace hydrascope::kernels::token_rows::cuda {

inline constexpr int kPrefixThreads = 256;
/// Half of a multiprocessor: with four loads each they keep 32 KiB on their way.
inline constexpr int kMeanThreads = 512;
/// Packs side by side: 128 bytes, a line of the cache. Narrow, so that one image of 768 columns is
/// the work of 12 (float32: 24) blocks: splitting the tokens too would need a workspace for a pass
/// that runs once per network.
inline constexpr int kPacksOfTile = 8;
inline constexpr int kTokenLanes = kMeanThreads / kPacksOfTile;

/// One block for each prefix row of an image.
constexpr device::Geometry prefix_geometry(std::int64_t images, std::int64_t num_prefix) {
  return {{images * num_prefix, 1, 1}, {kPrefixThreads, 1, 1}};
}

/// One block for each tile of columns of an image; `pack`: the columns of a thread.
constexpr device::Geometry mean_geometry(std::int64_t images, std::int64_t dim, int pack) {
  return {{images * device::ceil_div(dim, pack * kPacksOfTile), 1, 1}, {kMeanThreads, 1, 1}};
}

}  // namespace hydrascope::kernels::token_rows::cuda
