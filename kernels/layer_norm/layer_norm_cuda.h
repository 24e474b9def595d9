#pragma once

#include "kernels/device/stream.h"
#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::layer_norm::cuda {

template <class T>
struct LayerNormParams {
  const T* x;             ///< (rows, dim), rows `x_stride` apart
  std::int64_t x_stride;
  const T* residual;  ///< (rows, dim), rows `residual_stride` apart, added to x first; may be null
  std::int64_t residual_stride;
  T* sum;  ///< (rows, dim): x + residual, rounded; may be x or residual; null without residual
  std::int64_t sum_stride;
  std::int64_t rows;
  std::int64_t dim;
  const float* weight;  ///< (dim); null: 1, where the next linear layer has taken it in
  const float* bias;    ///< (dim); null: 0
  float eps;
  T* y;  ///< (rows, dim), the norm of the rounded sum; may be x where `sum` is not
  std::int64_t y_stride;
};
void layer_norm(const LayerNormParams<float>& params, device::Stream stream);
void layer_norm(const LayerNormParams<BFloat16>& params, device::Stream stream);
void layer_norm(const LayerNormParams<Float16>& params, device::Stream stream);

}  // namespace hydrascope::kernels::layer_norm::cuda
