// The public functions of linear_attention_cuda.h as templates: the choice between the families of
// kernels. Each .cu file defines those of one type.
#pragma once

#include "kernels/error.h"
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "kernels/linear_attention/simt_launch.cuh"
#include "kernels/linear_attention/tensor_core_launch.cuh"

#include <algorithm>
#include <string>

namespace hydrascope::kernels::linear_attention::cuda {

template <class T>
bool on_tensor_cores(const Shape& shape) {
  return tensor_core_serves<T>(shape);
}

/// Enough for both families: alignment and weights, which a shape does not show, decide as well.
template <class T>
std::size_t workspace_bytes(const Shape& shape, const Extent& extent) {
  std::size_t bytes = simt::workspace_bytes(shape, extent);
  if constexpr (sizeof(T) == 2) {
    if (tensor_core_serves<T>(shape))
      bytes = std::max({bytes, tensor_core_workspace_bytes<T>(shape, extent),
                        tensor_core_backward_workspace_bytes<T>(shape, extent)});
  }
  return bytes;
}

inline void check(const Shape& shape, const Extent& extent) {
  if (shape.num_heads < 1 || shape.width < 1 || shape.head_dim < 1 || extent.tokens < 0 ||
      extent.images < 0 || extent.queries < 0 || extent.queries > extent.tokens) {
    throw Error(ErrorCode::internal,
                "expects heads with elements and at most as many queries as tokens; found " +
                    std::to_string(shape.num_heads) + " heads of " + std::to_string(shape.width) +
                    " and " + std::to_string(shape.head_dim) + ", " +
                    std::to_string(extent.queries) + " queries of " +
                    std::to_string(extent.tokens) + " tokens",
                "linear attention");
  }
}

template <class T>
void run_forward(const ForwardParams<T>& params, device::Stream stream) {
  check(params.shape, params.extent);
  if constexpr (sizeof(T) == 2) {
    if (tensor_core_serves(params)) {
      tensor_core_forward(params, stream);
      return;
    }
  }
  simt::forward(params, stream);
}
template <class T>
void run_backward(const BackwardParams<T>& params, device::Stream stream) {
  check(params.shape, params.extent);
  if constexpr (sizeof(T) == 2) {
    if (params.extent.queries == params.extent.tokens && tensor_core_serves(params)) {
      tensor_core_backward(params, stream);
      return;
    }
  }
  simt::backward(params, stream);
}

}  // namespace hydrascope::kernels::linear_attention::cuda
