// The kernels of local_convolution_cuda.h, which has the equations and the traffic, and what launches them.
//
// Budget: add_kernel: 128 registers, 0 shared bytes, 4 blocks of 128
// Access: add_kernel: loads 128; stores 128
#include "kernels/device/block.cuh"
#include "kernels/device/choice.h"
#include "kernels/device/launch.cuh"
#include "kernels/device/vector_io.cuh"
#include "kernels/error.h"
#include "kernels/local_convolution/local_convolution_cuda.h"

#include <cstdint>
#include <string>

namespace hydrascope::kernels::local_convolution::cuda {

template <class T, int size>
__global__ void __launch_bounds__(kThreads) add_kernel(const AddParams<T> p) {
  constexpr int kPack = device::kPackSize<T>;
  constexpr int kReach = size / 2;
  const std::int64_t packs = p.shape.dim / kPack;
  const std::int64_t groups = (p.shape.columns + kNeighbours - 1) / kNeighbours;
  std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t f = item % packs * kPack;
  item /= packs;
  const std::int64_t column = item % groups * kNeighbours;
  item /= groups;
  const std::int64_t row = item % p.shape.rows;
  const std::int64_t image = item / p.shape.rows;
  if (image >= p.images) return;

  T* y = p.y + image * p.y_image_stride + (row * p.shape.columns + column) * p.y_stride + f;
  float sums[kNeighbours][kPack] = {};
#pragma unroll
  for (int i = 0; i < kNeighbours; ++i)
    if (column + i < p.shape.columns)
      device::to_floats(device::load_pack<kPack>(y + i * p.y_stride), sums[i]);
#pragma unroll 1
  for (int dy = -kReach; dy <= kReach; ++dy) {
    if (row + dy < 0 || row + dy >= p.shape.rows) continue;
    const float* weight = p.weight + (dy + kReach) * size * p.shape.dim + f;
    float w[size][kPack];
#pragma unroll
    for (int dx = 0; dx < size; ++dx) device::load_floats(weight + dx * p.shape.dim, w[dx]);
    const T* v = p.v + image * p.v_image_stride +
                 ((row + dy) * p.shape.columns + column - kReach) * p.v_stride + f;
#pragma unroll
    for (int c = 0; c < size + kNeighbours - 1; ++c) {
      const std::int64_t at = column - kReach + c;
      if (at < 0 || at >= p.shape.columns) continue;
      float values[kPack];
      device::to_floats(device::load_pack<kPack>(v + c * p.v_stride), values);
#pragma unroll
      for (int i = 0; i < kNeighbours; ++i) {
        const int dx = c - i;
        if (dx < 0 || dx >= size) continue;
#pragma unroll
        for (int j = 0; j < kPack; ++j) sums[i][j] += w[dx][j] * values[j];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kNeighbours; ++i)
    if (column + i < p.shape.columns)
      device::store_global(y + i * p.y_stride, device::from_floats<T>(sums[i]));
}

template <class T>
void add(const AddParams<T>& p, device::Stream stream) {
  if (p.images * p.shape.rows * p.shape.columns * p.shape.dim == 0) return;
  constexpr int kPack = device::kPackSize<T>;
  device::require_packs(device::can_pack(p.v, p.v_stride, kPack) &&
                            device::can_pack(p.y, p.y_stride, kPack) &&
                            p.v_image_stride % kPack == 0 && p.y_image_stride % kPack == 0 &&
                            p.shape.dim % kPack == 0 && device::can_pack(p.weight, 0, 4),
                        "local_convolution");
  const bool done = device::with_one_of<kSizes>(p.shape.size, [&]<int size>() {
    device::launch("add_kernel", add_kernel<T, size>,
                   geometry(p.images, p.shape.rows, p.shape.columns, p.shape.dim / kPack), stream,
                   p);
  });
  if (!done)
    throw Error(ErrorCode::internal, "there is no kernel of size " + std::to_string(p.shape.size),
                "local_convolution");
}

template void add(const AddParams<float>&, device::Stream);
template void add(const AddParams<BFloat16>&, device::Stream);
template void add(const AddParams<Float16>&, device::Stream);

}  // namespace hydrascope::kernels::local_convolution::cuda
