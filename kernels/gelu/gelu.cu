// The kernels of gelu_cuda.h, which has the equations and the traffic, and their launches.
//
// Geometry: 256 threads, each with two packs of 16 bytes a block's width apart.
//
// Budget: gelu_kernel: 40 registers, 0 shared bytes, 6 blocks of 256
// Access: gelu_kernel: loads 128; stores 128
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
  std::int64_t packs;
};

__global__ void __launch_bounds__(kThreads) gelu_kernel(const GeluParams p) {
  constexpr int kPack = device::kPackSize<float>;
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * (kThreads * kPacks) + threadIdx.x;
  device::Pack<float, kPack> packs[kPacks];
#pragma unroll
  for (int k = 0; k < kPacks; ++k)
    if (const std::int64_t i = first + k * kThreads; i < p.packs)
      packs[k] = device::load_pack<kPack>(p.values + i * kPack);
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const std::int64_t i = first + k * kThreads;
    if (i >= p.packs) continue;
#pragma unroll
    for (int j = 0; j < kPack; ++j) packs[k].values[j] = gelu_of(packs[k].values[j]);
    device::store_pack(p.values + i * kPack, packs[k]);
  }
}

void gelu(float* values, std::int64_t count, device::Stream stream) {
  if (count <= 0) return;
  device::require_packs(device::can_pack(values, count, 4), "gelu");
  device::launch("gelu_kernel", gelu_kernel, geometry(count / 4), stream, {values, count / 4});
}

}  // namespace hydrascope::kernels::gelu::cuda
