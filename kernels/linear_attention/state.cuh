// The state of linear attention in memory, and what all its CUDA kernels do with sums over tokens.
#pragma once

#include "kernels/device/block.cuh"
#include "kernels/device/rows.cuh"
#include "kernels/device/stream.h"
#include "kernels/device/vector_io.cuh"
#include "kernels/linear_attention/geometry.h"

#include <cstdint>

namespace hydrascope::kernels::linear_attention::cuda {

/// Sums of all heads: S (B, H, F, d), z (B, H, F), M (B, H, F). Who reads through it does not write.
struct State {
  float* data;
  std::int64_t rows;  ///< B * H * F
  int dim;

  State() = default;
  State(const float* memory, const Shape& shape, std::int64_t images)
      : data(const_cast<float*>(memory)),
        rows(images * shape.num_heads * shape.features()),
        dim(static_cast<int>(shape.head_dim)) {}
  __device__ float* s(std::int64_t row) const { return data + row * dim; }
  __device__ float* z(std::int64_t row) const { return data + rows * dim + row; }
  __device__ float* maximum(std::int64_t row) const { return data + rows * (dim + 1) + row; }
};

inline device::TokenWeights token_weights(const Extent& extent) {
  return {extent.num_prefix, extent.prefix_weight, extent.patch_weight};
}

/// Four neighbouring elements, the first `count` of them; `packed` where addresses allow one access.
template <class T>
__device__ __forceinline__ void load_four(float (&values)[4], const T* from, std::int64_t count,
                                          bool packed) {
  if (packed && count >= 4) {
    device::to_floats(device::load_pack<4>(from), values);
    return;
  }
#pragma unroll
  for (int c = 0; c < 4; ++c) values[c] = c < count ? device::to_float(from[c]) : 0.0F;
}
template <class T>
__device__ __forceinline__ void store_four(T* to, const float (&values)[4], std::int64_t count,
                                           bool packed) {
  if (packed && count >= 4) {
    device::store_pack<4>(to, device::from_floats<T>(values));
    return;
  }
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    if (c < count) to[c] = device::from_float<T>(values[c]);
  }
}
/// Whether every head's rows can be taken four elements at a time.
template <class T>
bool packs_of_four(const Rows<T>& rows, std::int64_t dim) {
  return dim % 4 == 0 && device::in_packs(rows, 4);
}

/// Brings the sums of `count` runs, `run_stride` floats apart, together (state.cu). `keys`: they have
/// an M, which maps without exponents leave at 0.
void combine(const Shape& shape, std::int64_t images, const float* runs, std::int64_t run_stride,
             std::int64_t count, bool keys, float* to, device::Stream stream);

}  // namespace hydrascope::kernels::linear_attention::cuda
