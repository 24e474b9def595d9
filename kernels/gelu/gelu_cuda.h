// GELU of a contiguous float32 array in place on CUDA, after matrix products: cuBLASLt's epilogue
// knows only the form with tanh, whose difference 16-bit types round away and float32 shows.
//
// Equation: y = x/2 (1 + erf(x / sqrt 2)) (Hendrycks, Gimpel 2016, arXiv 1606.08415), not the form
//   with tanh.
// Tensors: values (count), read and written, any alignment.
// Geometry (gelu_geometry.h): 256 threads, two packs of 16 bytes each; no shared memory.
// Memory: 8 count bytes. ViT-B at 1088x1920 (8161 x 3072): 200 MB per image and block. About 20
//   operations per element (erff), 2 to 3 per byte: bound by memory.
// Numerics: float32, erff: 1e-7 absolute. NaN and +infinity stay; -infinity gives NaN, as in torch.
// Deterministic: every value by itself.
// Preconditions: count <= 0: nothing is launched.
// Test: tests/kernels/gelu/gelu_cuda_test.cpp; twin: gelu_reference.h beside it.
#pragma once

#include "kernels/device/stream.h"

#include <cstdint>

namespace hydrascope::kernels::gelu::cuda {

/// values[i] = gelu(values[i]) for all i < count, by erf.
void gelu(float* values, std::int64_t count, device::Stream stream);

}  // namespace hydrascope::kernels::gelu::cuda
