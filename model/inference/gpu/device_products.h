// A plan's linear layers as matrix products of the device's library.
#pragma once

#include "kernels/device/stream.h"
#include "kernels/linear/products.h"
#include "model/inference/gpu/device_weights.h"

#include <cstdint>
#include <functional>

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
};

class DeviceProducts {
 public:
  /// Both must outlive it, and what it returns.
  DeviceProducts(const DeviceWeights& weights, kernels::linear::cuda::Products& library,
                 kernels::device::Stream stream)
      : weights_(weights), library_(library), stream_(stream) {}

  /// A call of the product and, where the library has not that form of it, of its GELU.
  std::function<void()> step(const ProductCall& call);
  /// Plans the product alone, for `run`.
  int plan(const ProductCall& call);
  void run(int number, const ProductCall& call, const void* x) const;

 private:
  const DeviceWeights& weights_;
  kernels::linear::cuda::Products& library_;
  kernels::device::Stream stream_;
};

}  // namespace hydrascope::model::inference
