// A depthwise convolution over the patch grid, added to a tile's rows: the local term of a global
// mechanism.
//
// Equation: y_p += sum over the s x s displacements d of w_d * v_(p + d), features apart (FLatten
//   Transformer, Han et al. 2023, arXiv 2308.00442, equation 7). What lies outside the grid counts
//   as zero.
// Tensors: v and y in T, rows contiguous, strides and alignment free, any D >= 1; weight in
//   float32. y must not overlap v.
// Traffic of n patches: each reads s^2 rows of v, n D elements of them for the first time and the
//   rest from L2 (s rows of the grid), and reads and writes y; 2 n s^2 D FLOPs. Four neighbours of a
//   row of the grid share the weights. bfloat16 is bound by taking the values apart, two operations
//   for each product.
// Numerics: float32 sums that begin with y, displacements in row-major order, one rounding to T. A
//   row's result depends neither on the other rows nor on how patches are cut into tiles. NaN in v
//   reaches the feature of all patches that see it; weights are finite.
// Test: tests/kernels/local_convolution/local_convolution_test.cpp; twin:
//   local_convolution_reference.h beside it.
#pragma once

#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::local_convolution {

/// Patches of one image, in row-major order.
struct Shape {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t dim;
  std::int64_t size;  ///< s, odd
};

template <class T>
struct AddParams {
  Shape shape;
  const T* v;  ///< (rows * columns, dim), `v_stride` apart
  std::int64_t v_stride;
  const float* weight;  ///< (size, size, dim)
  std::int64_t first;   ///< patch of the first row of y
  std::int64_t count;
  T* y;  ///< (count, dim), `y_stride` apart
  std::int64_t y_stride;
};
void add(const AddParams<float>& params);
void add(const AddParams<BFloat16>& params);

}  // namespace hydrascope::kernels::local_convolution
