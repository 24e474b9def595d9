// GELU of a contiguous array: the door through which gelu-inl.h, the epilogue of linear layers, is
// tested and measured.
//
// Equation: y = x/2 (1 + erf(x / sqrt 2)) (Hendrycks, Gimpel 2016, arXiv 1606.08415), not the form
//   with tanh.
// Tensors: x and y (count), any alignment; y may be x.
// Work: 4 bytes read and 4 or 2 written per element; 17 operations and a division (float32) or 12
//   and the rounding (bfloat16): bound by arithmetic.
// Numerics: float32; errors in gelu-inl.h. NaN and +infinity stay; -infinity gives NaN (float32, as
//   in torch) or the constant tail (bfloat16).
// Test: tests/kernels/gelu/gelu_test.cpp; twin: gelu_reference.h beside it.
#pragma once

#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::gelu {

void gelu(const float* x, float* y, std::int64_t count);
/// The cheaper approximation that is exact enough for what bfloat16 keeps.
void gelu(const float* x, BFloat16* y, std::int64_t count);

}  // namespace hydrascope::kernels::gelu
