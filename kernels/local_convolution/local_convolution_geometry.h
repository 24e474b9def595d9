// How the CUDA kernel of local_convolution_cuda.h is laid over a batch of grids. Free of CUDA.
#pragma once

#include "kernels/device/geometry.h"

#include <cstdint>

namespace hydrascope::kernels::local_convolution::cuda {

inline constexpr int kThreads = 128;
/// Neighbours in a row of the grid that a thread computes: a value serves as many of them as it
/// has displacements, so that a row of s + 3 values is read once for four sums of s.
inline constexpr int kNeighbours = 4;

/// Threads of one image: packs of features, innermost, of groups of neighbours.
constexpr std::int64_t threads_of_image(std::int64_t rows, std::int64_t columns,
                                        std::int64_t packs) {
  return rows * device::ceil_div(columns, kNeighbours) * packs;
}
constexpr device::Geometry geometry(std::int64_t images, std::int64_t rows, std::int64_t columns,
                                    std::int64_t packs) {
  return {{device::ceil_div(images * threads_of_image(rows, columns, packs), kThreads), 1, 1},
          {kThreads, 1, 1}};
}

}  // namespace hydrascope::kernels::local_convolution::cuda
