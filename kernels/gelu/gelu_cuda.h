// GELU of a contiguous float32 array in place on CUDA, after matrix products: cuBLASLt's epilogue
// knows only the form with tanh, whose difference 16-bit types round away and float32 shows.
//
// Equation: y = x/2 (1 + erf(x / sqrt 2)) (Hendrycks, Gimpel 2016, arXiv 1606.08415), not the form
//   with tanh.
// Tensors: values (count), read and written, any alignment.
// Geometry: 256 threads, two packs of 16 bytes each; no shared memory.
// Memory: 8 count bytes. ViT-B at 1088x1920 (8161 x 3072): 200 MB per image and block. About 20
//   operations per element (erff), 2 to 3 per byte: bound by memory.
// Numerics: float32, erff: 1e-7 absolute. NaN and +infinity stay; -infinity gives NaN, as in torch.
// Deterministic: every value by itself.
// Preconditions: count <= 0: nothing is launched.
// Test: tests/kernels/gelu/gelu_cuda_test.cpp; twin: gelu_reference.h beside it.
#pragma once

#include "kernels/device/geometry.h"
#include "kernels/device/stream.h"

#include <cstdint>

namespace hydrascope::kernels::gelu::cuda {

/// values[i] = gelu(values[i]) for all i < count, by erf.
void gelu(float* values, std::int64_t count, device::Stream stream);

// How the kernels are laid out; numbers that tests ask for without a GPU.

inline constexpr int kThreads = 256;
/// Packs a thread has in flight: with 2048 threads per multiprocessor these are 64 KiB, twice what
/// hides the latency of memory; more would only leave small arrays on fewer multiprocessors.
inline constexpr int kPacks = 2;

/// An array cut where 16-byte accesses can begin and end.
struct Parts {
  std::int64_t head;   ///< values before the first aligned one
  std::int64_t packs;  ///< of 16 bytes
  std::int64_t tail;   ///< values after the last whole pack
};
/// `address`: of the first value; `size`: of a value, a power of two that divides the address.
constexpr Parts parts(std::uint64_t address, std::int64_t count, std::int64_t size) {
  const std::int64_t pack = 16 / size;
  const std::int64_t to_aligned = static_cast<std::int64_t>((16 - address % 16) % 16) / size;
  const std::int64_t head = to_aligned < count ? to_aligned : count;
  const std::int64_t packs = (count - head) / pack;
  return {head, packs, count - head - packs * pack};
}

/// At least one block: it also does the head and the tail.
constexpr device::Geometry geometry(std::int64_t packs) {
  const std::int64_t blocks = device::ceil_div(packs, kThreads * kPacks);
  return {{blocks > 1 ? blocks : 1, 1, 1}, {kThreads, 1, 1}};
}

}  // namespace hydrascope::kernels::gelu::cuda
