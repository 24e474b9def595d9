// Device code of gelu_cuda.h; equation, traffic and numerics are told there.
//
// Geometry (gelu_geometry.h): 256 threads, each with two packs of 16 bytes a block's width apart;
// the few values before and after the aligned middle are the first block's.
//
// Budget: gelu_kernel: 40 registers, 0 shared bytes
#pragma once

#include "kernels/device/block.cuh"
#include "kernels/device/vector_io.cuh"
#include "kernels/gelu/gelu_geometry.h"

#include <cstdint>
#include <type_traits>

namespace hydrascope::kernels::gelu::cuda {

/// T: what the result is stored in, which says how exact it has to be. For bfloat16 the polynomial
/// of gelu-inl.h: x Phi(x) = max(x, 0) - a tail(a) with a = |x|, and the tail 1 - Phi the eighth
/// power of a polynomial on [0, 5.2], constant beyond.
template <class T>
__device__ __forceinline__ float gelu(float x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    constexpr float kEnd = 5.2F;
    const float magnitude = x < 0 ? -x : x;
    const float a = magnitude < kEnd ? magnitude : kEnd;
    float root = -1.833122002649e-4F;
    root = root * a + 1.8946606626174e-3F;
    root = root * a + -1.0200895067202e-3F;
    root = root * a + -3.178661782123604e-2F;
    root = root * a + -9.147795692676093e-2F;
    root = root * a + 9.170044874695351e-1F;
    const float square = root * root;
    const float fourth = square * square;
    const float rectified = x < 0 ? 0.0F : x;  // a NaN stays
    return rectified - a * (fourth * fourth);
  } else {
    constexpr float kSqrtHalf = 0.70710678118654752F;
    const float half = 0.5F * x;
    return half * erff(x * kSqrtHalf) + half;
  }
}

template <class T>
struct GeluParams {
  T* values;
  Parts parts;
};

template <class T>
__global__ void __launch_bounds__(kThreads) gelu_kernel(const GeluParams<T> p) {
  constexpr int kPack = device::kPackSize<T>;
  const auto thread = static_cast<std::int64_t>(threadIdx.x);
  T* middle = p.values + p.parts.head;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (kThreads * kPacks) + thread;
  device::Pack<T, kPack> packs[kPacks];
#pragma unroll
  for (int k = 0; k < kPacks; ++k)
    if (const std::int64_t i = first + k * kThreads; i < p.parts.packs)
      packs[k] = device::load_pack<kPack>(middle + i * kPack);
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const std::int64_t i = first + k * kThreads;
    if (i >= p.parts.packs) continue;
    float values[kPack];
    device::to_floats(packs[k], values);
#pragma unroll
    for (int j = 0; j < kPack; ++j) values[j] = gelu<T>(values[j]);
    device::store_pack(middle + i * kPack, device::from_floats<T>(values));
  }
  if (blockIdx.x != 0) return;
  const auto scalar = [](T* value) {
    *value = device::from_float<T>(gelu<T>(device::to_float(*value)));
  };
  if (thread < p.parts.head) scalar(p.values + thread);
  if (thread < p.parts.tail) scalar(middle + p.parts.packs * kPack + thread);
}

}  // namespace hydrascope::kernels::gelu::cuda
