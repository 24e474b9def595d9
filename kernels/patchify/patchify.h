// Images to rows of patches, the input of the patch embedding's matrix product.
//
// Equation: the patch embedding is a convolution whose stride is its size P, that is, a product of
//   rows of patches with the flattened weight (Dosovitskiy et al. 2020, arXiv 2010.11929, equation
//   1: x_p E). Row q holds patch (q / grid_columns, q % grid_columns). Here only the copy is made.
// Tensors: see the functions and fields; any alignment; y must not overlap the image.
// Memory: P P C floats read and as many T written per patch, each once; no FLOPs
//   beyond the conversion: bound by memory where the image comes from there. Reads run along P
//   image rows in pieces of P floats, writes are contiguous within a row of y.
// Numerics: one rounding to nearest even; NaN stays. Tolerance: none, the values are the twin's.
// Preconditions: first + count <= grid_columns * grid_rows, and the image holds these patches
//   (height and width need not be multiples of P: pixels beyond the grid are not read).
// Test: tests/kernels/patchify/patchify_test.cpp; twin: patchify_reference.h beside it.
#pragma once

#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::patchify {

template <class T>
struct TensorParams {
  const float* tensor;  ///< (channels, height, width), contiguous
  std::int64_t channels;
  std::int64_t height;
  std::int64_t width;
  std::int64_t grid_columns;
  std::int64_t patch_size;
  std::int64_t first;  ///< patches first .. first + count in row-major order of the grid
  std::int64_t count;
  T* y;  ///< (count, patch_size * patch_size * channels)
  std::int64_t y_stride;
};

/// A row of y is in the order (channel, y, x) of the patch convolution's weight.
void from_tensor(const TensorParams<float>& params);
void from_tensor(const TensorParams<BFloat16>& params);

}  // namespace hydrascope::kernels::patchify
