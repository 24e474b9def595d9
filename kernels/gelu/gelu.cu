// The kernels of gelu_cuda.h, which has the equations and the traffic, and what launches them.
//
// Geometry: 256 threads, each with two packs of 16 bytes a block's width apart;
// the few values before and after the aligned middle are the first block's.
//
// Budget: gelu_kernel: 40 registers, 0 shared bytes
#include "kernels/device/block.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/vector_io.cuh"
#include "kernels/gelu/gelu_cuda.h"

#include <cstdint>

namespace hydrascope::kernels::gelu::cuda {

__device__ __forceinline__ float gelu_of(float x) {
  constexpr float kSqrtHalf = 0.70710678118654752F;
  const float half = 0.5F * x;
  return half * erff(x * kSqrtHalf) + half;
}

struct GeluParams {
  float* values;
  Parts parts;
};

__global__ void __launch_bounds__(kThreads) gelu_kernel(const GeluParams p) {
  constexpr int kPack = device::kPackSize<float>;
  const auto thread = static_cast<std::int64_t>(threadIdx.x);
  float* middle = p.values + p.parts.head;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (kThreads * kPacks) + thread;
  device::Pack<float, kPack> packs[kPacks];
#pragma unroll
  for (int k = 0; k < kPacks; ++k)
    if (const std::int64_t i = first + k * kThreads; i < p.parts.packs)
      packs[k] = device::load_pack<kPack>(middle + i * kPack);
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const std::int64_t i = first + k * kThreads;
    if (i >= p.parts.packs) continue;
#pragma unroll
    for (int j = 0; j < kPack; ++j) packs[k].values[j] = gelu_of(packs[k].values[j]);
    device::store_pack(middle + i * kPack, packs[k]);
  }
  if (blockIdx.x != 0) return;
  const auto scalar = [](float* value) { *value = gelu_of(*value); };
  if (thread < p.parts.head) scalar(p.values + thread);
  if (thread < p.parts.tail) scalar(middle + p.parts.packs * kPack + thread);
}

void gelu(float* values, std::int64_t count, device::Stream stream) {
  if (count <= 0) return;
  const Parts cut = parts(reinterpret_cast<std::uintptr_t>(values), count, sizeof(float));
  device::launch("gelu_kernel", gelu_kernel, geometry(cut.packs), stream, GeluParams{values, cut});
}

}  // namespace hydrascope::kernels::gelu::cuda
