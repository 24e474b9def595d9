// How the CUDA kernel of gelu_cuda.h is laid over an array. Free of CUDA.
#pragma once

#include "kernels/device/geometry.h"

#include <cstdint>

namespace hydrascope::kernels::gelu::cuda {

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
