// A depthwise convolution over the patch grid on CUDA, added to the rows of a global mechanism: its
// local term.
//
// Equation: y_p += sum over the s x s displacements d of w_d * v_(p + d), features apart (FLatten
//   Transformer, Han et al. 2023, arXiv 2308.00442, equation 7). What lies outside the grid counts
//   as zero.
// Tensors: v and y of T = float, BFloat16 or Float16, rows contiguous, of whole packs of 16 bytes,
//   which divide strides and addresses; weight in float32, aligned to 16 bytes. y must not overlap v.
// Geometry: 128 threads; a thread one pack of 16 bytes of features of four neighbours in a row of the
//   grid; no shared memory.
// Memory: v and y are read and y is written once, 3 N D sizeof(T) bytes (ViT-B at 1088x1920 in
//   bfloat16: 38 MB per image and layer); v is read (s + 3) s / 4 times in all, 10 times for s = 5,
//   the weights once per thread, both from L2 or L1. 2 N s^2 D FLOPs: bound by L2.
// Numerics: float32 sums that begin with y, displacements in row-major order, one rounding to T. NaN
//   in v reaches the feature of all patches that see it; weights are finite.
// Tolerance: 3e-6 (float32), 4e-3 (bfloat16), 1e-3 (float16) of a sum, and 1e-6.
// Deterministic: every sum by itself.
// Preconditions: as above, s is 3, 5 or 7, else Error(internal). Nothing to do (images, rows, columns or dim
//   0): no launch.
// Test: tests/kernels/local_convolution/local_convolution_cuda_test.cpp; twin:
//   local_convolution_reference.h beside it.
#pragma once

#include "kernels/device/geometry.h"
#include "kernels/device/stream.h"
#include "kernels/local_convolution/local_convolution.h"
#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::local_convolution::cuda {

template <class T>
struct AddParams {
  Shape shape;
  std::int64_t images;
  const T* v;  ///< (images, rows * columns, dim)
  std::int64_t v_stride;
  std::int64_t v_image_stride;
  const float* weight;  ///< (size, size, dim)
  T* y;                 ///< (images, rows * columns, dim)
  std::int64_t y_stride;
  std::int64_t y_image_stride;
};
template <class T>
void add(const AddParams<T>& params, device::Stream stream);

// How the kernels are laid out; numbers that tests ask for without a GPU.

inline constexpr int kThreads = 128;
/// Displacements in a row, s.
inline constexpr int kSizes[] = {3, 5, 7};
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
