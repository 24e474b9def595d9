// Joint operations of the threads of a block or a warp. Every function here is a collective: all
// threads (of the block, or of the warp) must call it, from the same place; the emulator reports
// threads that do not.
#pragma once

#include "kernels/device/cuda_language.cuh"
#include "kernels/device/last_block.h"

#include <cstdint>

namespace hydrascope::kernels::device {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kWholeWarp = 0xffffffffU;

#ifdef __CUDACC__

/// The block's shared memory as one struct, static: the compiler's report shows its size. One T a
/// kernel; its content is undefined at first (NaN under the emulator).
template <class T>
__device__ __forceinline__ T& block_shared() {
  static_assert(sizeof(T) <= 48 * 1024, "static shared memory ends at 48 KiB");
  __shared__ __align__(16) unsigned char memory[sizeof(T)];
  return *reinterpret_cast<T*>(memory);
}

__device__ __forceinline__ void block_sync() { __syncthreads(); }
/// Orders memory among the lanes of a warp.
__device__ __forceinline__ void warp_sync() { __syncwarp(kWholeWarp); }
/// The value of lane `lane ^ mask`.
__device__ __forceinline__ float shuffle_xor(float value, int mask) {
  return __shfl_xor_sync(kWholeWarp, value, mask);
}

/// Adds one to a counter in global memory that is shared by `blocks` blocks, after what this
/// block's threads have written before has become visible to all; true in every thread of the block
/// that came last, which may read the others' writes and finds the counter at 0 again. A collective
/// of the block. last_block.h has the order and its reasons.
__device__ __forceinline__ bool last_block(unsigned* counter, unsigned blocks) {
  __shared__ bool last;
  struct Machine {
    unsigned* counter;
    unsigned blocks;
    bool* last;
    __device__ __forceinline__ void barrier() const { __syncthreads(); }
    __device__ __forceinline__ bool is_first_thread() const {
      return threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0;
    }
    __device__ __forceinline__ void fence() const { __threadfence(); }
    __device__ __forceinline__ void count() const {
      *last = atomicInc(counter, blocks - 1) == blocks - 1;
    }
    __device__ __forceinline__ bool was_last() const { return *last; }
  } machine{counter, blocks, &last};
  return last_block_by(machine);
}

#else

template <class T>
T& block_shared() {
  return *static_cast<T*>(emulator::block_shared(sizeof(T), typeid(T)));
}
#define HYDRASCOPE_SITE std::source_location site = std::source_location::current()
inline void block_sync(HYDRASCOPE_SITE) { emulator::block_barrier(site); }
inline void warp_sync(HYDRASCOPE_SITE) { emulator::warp_barrier(site); }
inline float shuffle_xor(float value, int mask, HYDRASCOPE_SITE) {
  return emulator::shuffle_xor(value, mask, site);
}
inline bool last_block(unsigned* counter, unsigned blocks, HYDRASCOPE_SITE) {
  return emulator::last_block(counter, blocks, site);
}
#undef HYDRASCOPE_SITE

#endif

__device__ __forceinline__ int lane_index() { return static_cast<int>(threadIdx.x % kWarpSize); }
__device__ __forceinline__ int warp_index() { return static_cast<int>(threadIdx.x / kWarpSize); }

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
/// NaN wins, unlike fmaxf.
struct Max {
  __device__ float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

/// Reduces groups of `width` (a power of two, at most 32) neighbouring lanes; every lane gets its
/// group's result. The order is a tree, so that it is fixed.
template <int width = kWarpSize, class Operation>
__device__ __forceinline__ float warp_reduce(float value, Operation operation) {
#pragma unroll
  for (int offset = width / 2; offset > 0; offset /= 2)
    value = operation(value, shuffle_xor(value, offset));
  return value;
}

}  // namespace hydrascope::kernels::device
