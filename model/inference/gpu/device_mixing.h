// A layer mixes its tokens on a GPU by CUDA kernels of its own or by LibTorch's softmax. A layer
// without an object of this kind runs as a module.
#pragma once

#include "kernels/device/stream.h"
#include "kernels/linear/products.h"
#include "model/attention/kernel_form.h"

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace hydrascope::model::inference {

/// Calls body.operator()<T>() with the kernels' T of a product type.
template <class Body>
void with_storage(kernels::linear::cuda::ProductType type, Body body) {
  switch (type) {
    case kernels::linear::cuda::ProductType::bfloat16:
      body.template operator()<kernels::BFloat16>();
      return;
    case kernels::linear::cuda::ProductType::float16:
      body.template operator()<kernels::Float16>();
      return;
    default: body.template operator()<float>(); return;
  }
}

class DeviceMixing {
 public:
  /// The tokens of a call.
  struct Extent {
    std::int64_t images = 0;
    std::int64_t queries = 0;  ///< leading tokens of each image that have a query
    const TokenGrid& grid;
  };
  /// Bytes.
  struct Room {
    std::size_t state = 0;  ///< the keys' sums
    std::size_t workspace = 0;
    std::size_t counters = 0;  ///< zero before the first call and between calls
  };
  /// Rows of T on the device; the rows of an image follow each other. y is (images, queries, D).
  struct Call {
    Extent extent;
    const void* q;
    std::int64_t q_stride;
    const void* k;
    const void* v;
    std::int64_t kv_stride;
    void* y;
    float* state;
    void* workspace;
    void* counters;
    kernels::device::Stream stream;
  };

  DeviceMixing() = default;
  DeviceMixing(const DeviceMixing&) = delete;
  DeviceMixing& operator=(const DeviceMixing&) = delete;
  virtual ~DeviceMixing() = default;

  [[nodiscard]] virtual Room room(const Extent& /*extent*/) const { return {}; }
  /// Launches the kernels, any number of times; empty if LibTorch mixes.
  [[nodiscard]] virtual std::function<void()> launches(const Call& /*call*/) const { return {}; }
  /// The factor of the queries if LibTorch's softmax mixes; nothing if kernels mix.
  [[nodiscard]] virtual std::optional<double> softmax_scale(const TokenGrid& /*grid*/) const {
    return std::nullopt;
  }
};

/// Null if a GPU has no kernels for that form in that type. `form` must outlive it.
std::unique_ptr<DeviceMixing> device_mixing(const KernelForm& form,
                                            kernels::linear::cuda::ProductType type,
                                            c10::Device device, std::int64_t num_heads,
                                            std::int64_t head_dim);

}  // namespace hydrascope::model::inference
