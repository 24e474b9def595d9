// Layer normalisation of token rows on CUDA: before the attention and the MLP of every block, and
// before the classifier. (The residual is added by the product before it, linear/.)
//
// Equation: y = (x - mean) / sqrt(var + eps) * weight + bias, mean and (biased) var over the row
//   (Ba et al. 2016, arXiv 1607.06450, equation 3; eps as in torch).
// Tensors: see the fields; T = float, BFloat16 or Float16, rows contiguous, any stride, any
//   alignment. y may be x (with the same stride); nothing else may overlap.
// Geometry: 128 threads, one warp per row, no shared memory (layer_norm_geometry.h). Where all
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
void layer_norm(const LayerNormParams<float>& params, device::Stream stream);
void layer_norm(const LayerNormParams<BFloat16>& params, device::Stream stream);
void layer_norm(const LayerNormParams<Float16>& params, device::Stream stream);

}  // namespace hydrascope::kernels::layer_norm::cuda
