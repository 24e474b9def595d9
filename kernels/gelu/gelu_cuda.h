// GELU of a contiguous float32 array in place on CUDA, after matrix products: cuBLASLt's epilogue
// knows only the form with tanh, whose difference 16-bit types round away and float32 shows.
//
// Equation: y = x/2 (1 + erf(x / sqrt 2)) (Hendrycks, Gimpel 2016, arXiv 1606.08415), not the form
//   with tanh.
// Tensors: values (count), read and written; 16 divides their address and 4 their count.
// Geometry: 256 threads, two packs of 16 bytes each; no shared memory.
// Memory: 8 count bytes. ViT-B at 1088x1920 (8161 x 3072): 200 MB per image and block. About 20
//   operations per element (erff), 2 to 3 per byte: bound by memory.
// Numerics: float32, erff to two units of 2^-24. NaN and +infinity stay; -infinity gives NaN, as in
//   torch.
// Tolerance: 4.5e-7, and a rounding: the error of erff, 1.2e-7, times |x| / 2 <= 2.8 (beyond, erff
//   is 1), and half a unit of this product if it is not fused with the sum.
// Deterministic: every value depends on one input value.
// Preconditions: as above, else Error(internal); count <= 0: nothing is launched.
// Test: tests/kernels/gelu/gelu_cuda_test.cpp; twin: gelu_reference.h beside it.
#pragma once

#include "kernels/device/geometry.h"
#include "kernels/device/stream.h"

#include <cstdint>

namespace hydrascope::kernels::gelu::cuda {

/// values[i] = gelu(values[i]) for all i < count, by erf.
void gelu(float* values, std::int64_t count, device::Stream stream);

// The layout of the kernels, as numbers that tests read without a GPU.

inline constexpr int kThreads = 256;
/// Packs that a thread has in flight: with 2048 threads per multiprocessor these are 64 KiB, twice
/// what hides the latency of memory; more would only leave small arrays on fewer multiprocessors.
inline constexpr int kPacks = 2;

constexpr device::Geometry geometry(std::int64_t packs) {
  return {{device::ceil_div(packs, kThreads * kPacks), 1, 1}, {kThreads, 1, 1}};
}

}  // namespace hydrascope::kernels::gelu::cuda
