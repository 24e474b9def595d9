// Layer normalisation of token rows: before the attention and the MLP of every block, and before
// the classifier.
//
// Equation: y = (x - mean) / sqrt(var + eps) * weight + bias, mean and (biased) var over the row
//   (Ba et al. 2016, arXiv 1607.06450, equation 3; eps as in torch). With `rms` the mean is 0
//   and var the mean of x^2: RMSNorm (Zhang and Sennrich 2019, arXiv 1910.07467, equation 4).
// Tensors: see the fields. x and y float32 or bfloat16, any alignment, rows contiguous, any stride;
//   y may be x (with the same stride) and must not overlap it otherwise.
// Work: 2 rows dim sizeof(T) bytes (N = 197, D = 768 in float32: 1.2 MB). The row is read three
//   times, but from the L1 cache after the first. About 10 FLOPs per element: bound by the L2 cache
//   or, where dim is small, by the latency of two sums over lanes; in bfloat16 by the conversions.
// Numerics: float32, one rounding when stored. The first pass sums the mean and the second one the
//   squares around it; the sum of the deviations from the rounded mean corrects both (Chan, Golub,
//   LeVeque 1983). So a mean of many deviations costs only the digits that x itself has lost. Rows
//   whose squares exceed float32 (|x| above 1e18) are not finite. The order of the sums is fixed
//   for each instruction set: a row depends neither on the others nor on the number of threads.
// NaN or infinity in a row makes that row NaN and no other. A constant row gives bias (eps > 0).
// Tolerance: 1e-6 of values of order one, and a rounding to T. Preconditions: dim >= 1, rows >= 0.
// Test: tests/kernels/layer_norm/layer_norm_test.cpp; twin: layer_norm_reference.h beside it.
#pragma once

#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::layer_norm {

template <class T>
struct LayerNormParams {
  const T* x;             ///< (rows, dim), rows contiguous
  std::int64_t x_stride;  ///< elements between rows
  std::int64_t rows;
  std::int64_t dim;
  const float* weight;  ///< (dim); null: 1, when the next linear layer has taken it in
  const float* bias;    ///< (dim); null: 0
  float eps;
  T* y;  ///< (rows, dim); may be x
  std::int64_t y_stride;
  bool rms = false;
};

void layer_norm(const LayerNormParams<float>& params);
void layer_norm(const LayerNormParams<BFloat16>& params);

}  // namespace hydrascope::kernels::layer_norm
