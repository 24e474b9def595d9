// GELU of a contiguous array in place on CUDA, after matrix products whose library has no such
// epilogue (cuBLASLt knows only the form with tanh).
//
// Equation: y = x/2 (1 + erf(x / sqrt 2)) (Hendrycks, Gimpel 2016, arXiv 1606.08415), not the form
//   with tanh.
// Tensors: values (count) of T = float, BFloat16 or Float16, read and written, any alignment.
// Geometry (gelu_geometry.h): 256 threads, two packs of 16 bytes each; no shared memory.
// Memory: 2 count sizeof(T) bytes. ViT-B at 1088x1920 in bfloat16 (8161 x 3072): 100 MB per image
//   and block. About 20 operations (float32, float16: erff) or 14 (bfloat16) per element, 4 to 5 per
//   byte: bound by memory.
// Numerics: float32 and one rounding. erff: 1e-7 absolute. For bfloat16 the polynomial of
//   gelu-inl.h, 6.6e-6 absolute, below half of the last digit that bfloat16 keeps wherever |GELU| >
//   0.002. NaN and +infinity stay; -infinity gives NaN (float32, float16; as in torch) or the
//   constant tail -3.5e-7 (bfloat16).
// Deterministic: every value by itself.
// Preconditions: count <= 0: nothing is launched.
// Test: tests/kernels/gelu/gelu_cuda_test.cpp; twin: gelu_reference.h beside it.
#pragma once

#include "kernels/device/stream.h"
#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::gelu::cuda {

/// values[i] = gelu(values[i]) for all i < count, by erf.
void gelu(float* values, std::int64_t count, device::Stream stream);
void gelu(BFloat16* values, std::int64_t count, device::Stream stream);
void gelu(Float16* values, std::int64_t count, device::Stream stream);

}  // namespace hydrascope::kernels::gelu::cuda
