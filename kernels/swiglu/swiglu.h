// SwiGLU, the function between the two products of a block's gated MLP.
//
// Equation: y = silu(g) u, silu(g) = g / (1 + e^-g) (Shazeer 2020, arXiv 2002.05202, section 2).
// Tensors: x (rows, 2 width), in each row g and then u; y (rows, width). float32 or bfloat16, any
//   alignment, rows contiguous and without gaps. y may be x, whose first rows it then overwrites.
// Work: 3 rows width sizeof(T) bytes, about 25 operations per element (exp and a division).
// Numerics: float32, one rounding when stored; the relative error is below 4e-7. The result is zero
//   for g below -88 and NaN for g = -infinity, as in torch. NaN stays. Every element by itself.
//   Tolerance: 1e-6 (float32) or 2^-8 (bfloat16) of the largest |y|.
// Preconditions: width >= 1, rows >= 0.
// Test: tests/kernels/swiglu/swiglu_test.cpp, which holds the twin.
#pragma once

#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::swiglu {

template <class T>
struct SwigluParams {
  const T* x;  ///< (rows, 2 width)
  std::int64_t rows;
  std::int64_t width;
  T* y;  ///< (rows, width); may be x
};

void swiglu(const SwigluParams<float>& params);
void swiglu(const SwigluParams<BFloat16>& params);

}  // namespace hydrascope::kernels::swiglu
