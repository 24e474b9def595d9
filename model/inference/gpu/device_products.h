// A plan's linear layers as matrix products of the device's library.
#pragma once

#include "kernels/linear/products.h"
#include "model/inference/gpu/device_weights.h"

#include <cstdint>

namespace hydrascope::model::inference {

/// y = x W^T + b (+ c) of `rows` rows per image.
struct ProductCall {
  const DeviceLinear* linear = nullptr;
  const void* x = nullptr;
  void* y = nullptr;
  const void* c = nullptr;
  std::int64_t images = 1;
  std::int64_t rows = 0;
  std::int64_t x_image_stride = 0;
  std::int64_t y_image_stride = 0;
  std::int64_t c_image_stride = 0;
  bool gelu = false;
  int x_alignment = 0;  ///< bytes that any later x is aligned to; 0: as x is

  /// cuBLASLt has no erf form of GELU; in float32 its tanh form would be seen.
  [[nodiscard]] bool gelu_apart() const {
    return gelu && linear->weight.scalar_type() == at::kFloat;
  }
  /// In `type`, or in float32 if the weights are.
  [[nodiscard]] kernels::linear::cuda::ProductShape shape(
      kernels::linear::cuda::ProductType type) const;
};

}  // namespace hydrascope::model::inference
