// Layer normalisation of token rows on CUDA: before the attention and the MLP of every block. Weight and
// bias are part of the linear layer behind it. (The product before it adds the residual, linear/.)
//
// Equation: y = (x - mean) / sqrt(var + eps), mean and (biased) var over the row
//   (Ba et al. 2016, arXiv 1607.06450, equation 3; eps as in torch).
// Tensors: see the fields; T = float, BFloat16 or Float16, rows contiguous, of whole packs of 16
//   bytes (`serves`: dim <= 2048, float32 1536); 16 bytes divide strides and addresses. y may be x
//   (with the same stride); nothing else may overlap.
// Geometry: 128 threads, one warp per row, no shared memory; the row stays in registers.
// Memory: rows dim sizeof(T) times 2 (read x, write y). ViT-B at 1088x1920 in bfloat16 (8161 x 768): 25 MB per image; about 10 FLOPs per
//   element, 1 to 3 per byte: bound by memory.
// Numerics: float32, one rounding when stored. Two passes from registers: the first one sums the
//   mean, the second one the squares around it; the sum of the deviations from the rounded mean
//   corrects both (Chan, Golub, LeVeque 1983). Rows whose squares exceed float32 are not finite.
//   NaN or infinity in a row makes that row NaN and no other. A constant row gives 0 (eps > 0).
// Tolerance: a rounding to T, and 2e-6 of values of order one.
// Deterministic: the order of the sums depends on T and dim only, so a row is the same in every
//   batch.
// Preconditions: as above, and rows >= 0 (0: nothing is launched), else Error(internal).
// Test: tests/kernels/layer_norm/layer_norm_cuda_test.cpp; twin: layer_norm_reference.h beside it.
#pragma once

#include "kernels/device/geometry.h"
#include "kernels/device/stream.h"
#include "kernels/vector/scalar_types.h"

#include <array>
#include <cstdint>

namespace hydrascope::kernels::layer_norm::cuda {

template <class T>
struct LayerNormParams {
  const T* x;  ///< (rows, dim), rows `x_stride` apart
  std::int64_t x_stride;
  std::int64_t rows;
  std::int64_t dim;
  float eps;
  T* y;  ///< (rows, dim), rows `y_stride` apart; may be x
  std::int64_t y_stride;
};
template <class T>
void layer_norm(const LayerNormParams<T>& params, device::Stream stream);

// The layout of the kernels, as numbers that tests read without a GPU.

/// One warp per row: its two sums need no shared memory and no barrier, and the other warps of the
/// multiprocessor hide the latency of memory. Blocks are small so that few rows (197 of one
/// picture) still reach many multiprocessors, and that rounding loses few registers.
inline constexpr std::int64_t kRowsPerBlock = 4;
inline constexpr int kThreads = 32 * kRowsPerBlock;

constexpr device::Geometry geometry(std::int64_t rows) {
  return {{device::ceil_div(rows, kRowsPerBlock), 1, 1}, {kThreads, 1, 1}};
}

/// Packs of 16 bytes that a lane holds, as the kernels are compiled: exact for the widths of vision
/// transformers (192, 384, 768, 1024, 1280 or 1536, 2048), the next larger for all others. A lane
/// holds at most 64 values of 16 bits or 48 of float32: more registers would cost more in warps
/// than a second and third reading of the row costs.
template <class T>
inline constexpr std::array<int, 6> kPacks{1, 2, 3, 4, 6, 8};
template <>
inline constexpr std::array<int, 5> kPacks<float>{2, 3, 6, 8, 12};

/// The smallest number of packs that holds a row of `dim` values of T; 0: none does, or `dim` is
/// not a whole number of packs.
template <class T>
constexpr int packs_per_lane(std::int64_t dim) {
  constexpr std::int64_t kPack = 16 / sizeof(T);
  if (dim < 1 || dim % kPack != 0) return 0;
  for (const int packs : kPacks<T>)
    if (dim <= 32 * packs * kPack) return packs;
  return 0;
}
template <class T>
constexpr bool serves(std::int64_t dim) {
  return packs_per_lane<T>(dim) > 0;
}

}  // namespace hydrascope::kernels::layer_norm::cuda
