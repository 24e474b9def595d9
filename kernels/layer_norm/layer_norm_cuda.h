// Layer normalisation of token rows on CUDA: before the attention and the MLP of every block, and
// before the classifier. (The residual is added by the product before it, linear/.)
//
// Equation: y = (x - mean) / sqrt(var + eps) * weight + bias, mean and (biased) var over the row
//   (Ba et al. 2016, arXiv 1607.06450, equation 3; eps as in torch).
// Tensors: see the fields; T = float, BFloat16 or Float16, rows contiguous, any stride, any
//   alignment. y may be x (with the same stride); nothing else may overlap.
// Geometry: 128 threads, one warp per row, no shared memory. Where all
//   rows, weight and bias are aligned to 16 bytes and dim <= 2048 (1536 in float32) the row stays
//   in registers; else a kernel reads it value by value, three times, twice from the caches.
// Memory: rows dim sizeof(T) times 2 (read x, write y); weight and bias (8 dim bytes) come from the
//   L1 cache. ViT-B at 1088x1920 in bfloat16 (8161 x 768): 25 MB per image; about 10 FLOPs per
//   element, 1 to 3 per byte: bound by memory.
// Numerics: float32, one rounding when stored. Two passes from registers, the
//   mean and then the squares around it; the sum of what is left around the rounded mean corrects
//   both (Chan, Golub, LeVeque 1983). Rows whose squares exceed float32 are not finite. NaN or
//   infinity in a row makes that row NaN and no other. A constant row gives bias (eps > 0).
// Deterministic: the order of the sums depends on T, dim and alignment only, so a row is the same
//   in every batch.
// Preconditions: dim >= 1, rows >= 0 (0: nothing is launched), else Error(internal).
// Test: tests/kernels/layer_norm/layer_norm_cuda_test.cpp; twin: layer_norm_reference.h beside it.
#pragma once

#include "kernels/device/geometry.h"
#include "kernels/device/stream.h"
#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::layer_norm::cuda {

template <class T>
struct LayerNormParams {
  const T* x;  ///< (rows, dim), rows `x_stride` apart
  std::int64_t x_stride;
  std::int64_t rows;
  std::int64_t dim;
  const float* weight;  ///< (dim); null: 1, where the next linear layer has taken it in
  const float* bias;    ///< (dim); null: 0
  float eps;
  T* y;  ///< (rows, dim), rows `y_stride` apart; may be x
  std::int64_t y_stride;
};
template <class T>
void layer_norm(const LayerNormParams<T>& params, device::Stream stream);

// How the kernels are laid out; numbers that tests ask for without a GPU.

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
