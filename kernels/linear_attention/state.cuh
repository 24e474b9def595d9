// The state of linear attention in memory, common to its CUDA kernels.
#pragma once

#include "kernels/device/cuda_language.cuh"
#include "kernels/linear_attention/geometry.h"

#include <cstdint>

namespace hydrascope::kernels::linear_attention::cuda {

/// Sums of all heads: S (B, H, F, d), z (B, H, F), M (B, H, F). Kernels that read never write here.
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

}  // namespace hydrascope::kernels::linear_attention::cuda
