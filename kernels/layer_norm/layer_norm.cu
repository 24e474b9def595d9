// The kernels of layer_norm_cuda.h, which has the equations and the traffic, and their launches.
//
// Geometry: 128 threads, one warp per row; no shared memory, no barrier. The row lies in the registers
//   of its warp, `packs` packs of 16 bytes per lane, read once in accesses that are 512 bytes wide.
//
// Budget: layer_norm_kernel: 96 registers, 0 shared bytes, 5 blocks of 128; 144 registers elsewhere
// Access: layer_norm_kernel: loads 128; stores 128
#include "kernels/device/block.cuh"
#include "kernels/device/choice.h"
#include "kernels/device/launch.cuh"
#include "kernels/device/vector_io.cuh"
#include "kernels/layer_norm/layer_norm_cuda.h"

#include <cstdint>

namespace hydrascope::kernels::layer_norm::cuda {

/// A row's values become (x - mean) * scale + shift.
struct Standard {
  float scale;
  float shift;
};
/// `sum` and `squares` are sums of x - mean and its square over the row. The mean was rounded:
/// `sum`, its error, corrects the variance and joins the result after the difference x - mean,
/// which is exact if x is near the mean.
__device__ __forceinline__ Standard standard(float sum, float squares, float each, float eps) {
  const float correction = sum * each;
  const float centred = squares - sum * correction;
  // A constant row may come out below zero by a rounding. A NaN stays.
  const float variance = centred < 0 ? 0.0F : centred * each;
  const float scale = 1.0F / sqrtf(variance + eps);
  return {scale, -correction * scale};
}

/// Preconditions: all pointers 16-byte aligned, strides and dim whole packs, dim at most 32 `packs`
/// packs.
template <class T, int packs>
__global__ void __launch_bounds__(kThreads) layer_norm_kernel(const LayerNormParams<T> p) {
  constexpr int kPack = device::kPackSize<T>;
  constexpr int kStep = kPack * device::kWarpSize;
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * kRowsPerBlock + device::warp_index();
  if (row >= p.rows) return;  // the whole warp
  const int dim = static_cast<int>(p.dim);
  const int first = device::lane_index() * kPack;

  float values[packs][kPack];
  const T* x = p.x + row * p.x_stride;
#pragma unroll
  for (int k = 0; k < packs; ++k) {
    const int i = first + k * kStep;
    if (i < dim) {
      device::to_floats(device::load_pack<kPack>(x + i), values[k]);
    } else {
#pragma unroll
      for (int j = 0; j < kPack; ++j) values[k][j] = 0;
    }
  }

  const float each = 1.0F / static_cast<float>(dim);
  float total = 0;
#pragma unroll
  for (int k = 0; k < packs; ++k)
#pragma unroll
    for (int j = 0; j < kPack; ++j) total += values[k][j];
  const float mean = device::warp_reduce(total, device::Sum{}) * each;
  float deviations = 0;
  float squares = 0;
#pragma unroll
  for (int k = 0; k < packs; ++k) {
    if (first + k * kStep >= dim) continue;  // zeros there, and not the mean
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      values[k][j] -= mean;
      deviations += values[k][j];
      squares += values[k][j] * values[k][j];
    }
  }
  deviations = device::warp_reduce(deviations, device::Sum{});
  squares = device::warp_reduce(squares, device::Sum{});
  const Standard to = standard(deviations, squares, each, p.eps);

  T* y = p.y + row * p.y_stride;
#pragma unroll
  for (int k = 0; k < packs; ++k) {
    const int i = first + k * kStep;
    if (i >= dim) continue;
#pragma unroll
    for (int j = 0; j < kPack; ++j) values[k][j] = values[k][j] * to.scale + to.shift;
    device::store_pack(y + i, device::from_floats<T>(values[k]));
  }
}

template <class T>
void layer_norm(const LayerNormParams<T>& p, device::Stream stream) {
  constexpr int kPack = device::kPackSize<T>;
  device::require_packs(serves<T>(p.dim) && device::can_pack(p.x, p.x_stride, kPack) &&
                            device::can_pack(p.y, p.y_stride, kPack),
                        "layer_norm");
  if (p.rows == 0) return;
  device::with_one_of<kPacks<T>>(packs_per_lane<T>(p.dim), [&]<int packs>() {
    device::launch("layer_norm_kernel", layer_norm_kernel<T, packs>, geometry(p.rows), stream, p);
  });
}

template void layer_norm(const LayerNormParams<float>&, device::Stream);
template void layer_norm(const LayerNormParams<BFloat16>&, device::Stream);
template void layer_norm(const LayerNormParams<Float16>&, device::Stream);

}  // namespace hydrascope::kernels::layer_norm::cuda
