// The public functions of linear_attention_cuda.h: the choice between the families of kernels.
#include "kernels/error.h"
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "kernels/linear_attention/simt_launch.cuh"
#include "kernels/linear_attention/tensor_core_launch.cuh"

#include <algorithm>
#include <string>

namespace hydrascope::kernels::linear_attention::cuda {

std::size_t state_floats(const Shape& shape, const Extent& extent) {
  return static_cast<std::size_t>(simt::sums_floats(shape, extent.images));
}

template <class T>
bool on_tensor_cores(const Shape& shape) {
  return tensor_core_serves<T>(shape);
}

/// Enough for both families: alignment and weights, which a shape does not show, decide as well.
template <class T>
std::size_t workspace_bytes(const Shape& shape, const Extent& extent) {
  std::size_t bytes = simt::workspace_bytes(shape, extent, /*backward=*/false);
  if constexpr (sizeof(T) == 2) {
    if (tensor_core_serves<T>(shape))
      bytes = std::max(bytes, tensor_core_workspace_bytes<T>(shape, extent));
  }
  return bytes;
}
template <class T>
std::size_t backward_workspace_bytes(const Shape& shape, const Extent& extent) {
  std::size_t bytes = simt::workspace_bytes(shape, extent, /*backward=*/true);
  if constexpr (sizeof(T) == 2) {
    if (tensor_core_serves<T>(shape))
      bytes = std::max(bytes, tensor_core_backward_workspace_bytes<T>(shape, extent));
  }
  return bytes;
}

void check(const Shape& shape, const Extent& extent) {
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

/// `rows`: of queries or keys, whichever a pass does nothing without.
void check_workspace(const void* workspace, std::size_t bytes, const Extent& extent,
                     std::int64_t rows) {
  if (workspace == nullptr && bytes > 0 && extent.images > 0 && rows > 0)
    throw Error(ErrorCode::internal, "has no workspace", "linear attention");
}

template <class T>
void run_forward(const ForwardParams<T>& params, device::Stream stream) {
  const Extent& extent = params.extent;
  check(params.shape, extent);
  const bool packed = tensor_core_serves(params);
  check_workspace(params.workspace,
                  packed ? tensor_core_workspace_bytes<T>(params.shape, extent)
                         : simt::workspace_bytes(params.shape, extent, /*backward=*/false),
                  extent, extent.tokens);
  if constexpr (sizeof(T) == 2) {
    if (packed) {
      tensor_core_forward(params, stream);
      return;
    }
  }
  simt::forward(params, stream);
}
template <class T>
void run_backward(const BackwardParams<T>& params, device::Stream stream) {
  const Extent& extent = params.extent;
  check(params.shape, extent);
  const bool packed = extent.queries == extent.tokens && tensor_core_serves(params);
  check_workspace(params.workspace,
                  packed ? tensor_core_backward_workspace_bytes<T>(params.shape, extent)
                         : simt::workspace_bytes(params.shape, extent, /*backward=*/true),
                  extent, extent.queries);
  if constexpr (sizeof(T) == 2) {
    if (packed) {
      tensor_core_backward(params, stream);
      return;
    }
  }
  simt::backward(params, stream);
}

template bool on_tensor_cores<float>(const Shape&);
template std::size_t workspace_bytes<float>(const Shape&, const Extent&);
template std::size_t backward_workspace_bytes<float>(const Shape&, const Extent&);
template bool on_tensor_cores<BFloat16>(const Shape&);
template std::size_t workspace_bytes<BFloat16>(const Shape&, const Extent&);
template std::size_t backward_workspace_bytes<BFloat16>(const Shape&, const Extent&);
template bool on_tensor_cores<Float16>(const Shape&);
template std::size_t workspace_bytes<Float16>(const Shape&, const Extent&);
template std::size_t backward_workspace_bytes<Float16>(const Shape&, const Extent&);

void forward(const ForwardParams<float>& params, device::Stream stream) {
  run_forward(params, stream);
}
void forward(const ForwardParams<BFloat16>& params, device::Stream stream) {
  run_forward(params, stream);
}
void forward(const ForwardParams<Float16>& params, device::Stream stream) {
  run_forward(params, stream);
}

void backward(const BackwardParams<float>& params, device::Stream stream) {
  run_backward(params, stream);
}
void backward(const BackwardParams<BFloat16>& params, device::Stream stream) {
  run_backward(params, stream);
}
void backward(const BackwardParams<Float16>& params, device::Stream stream) {
  run_backward(params, stream);
}

}  // namespace hydrascope::kernels::linear_attention::cuda
