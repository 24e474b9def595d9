// The door to linear attention on tensor cores: which calls it serves, and the calls. Declarations
// only, instantiated by tensor_core_{bfloat16,float16}.cu, so that any host code may include it.
#pragma once

#include "kernels/device/stream.h"
#include "kernels/error.h"
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "kernels/linear_attention/tensor_core_geometry.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::kernels::linear_attention::cuda {

/// Whether shapes and types are served.
template <class T>
constexpr bool tensor_core_serves(const Shape& shape) {
  return tensor_core::serves<T>(shape);
}
/// Whether this call is, too: rows and state can be read in packs of 16 bytes, and no weight of a
/// map with exponents is negative. `state` and `denominator` mean the same to float32 arithmetic,
/// so that forward and backward pass may be answered differently.
template <class T>
bool tensor_core_serves(const ForwardParams<T>& params);
template <class T>
bool tensor_core_serves(const BackwardParams<T>& params);

/// Bytes of ForwardParams::workspace and of BackwardParams::workspace.
template <class T>
std::size_t tensor_core_workspace_bytes(const Shape& shape, const Extent& extent);
template <class T>
std::size_t tensor_core_backward_workspace_bytes(const Shape& shape, const Extent& extent);

/// Without images or tokens nothing is launched nor written; without queries the state is. What
/// `multiprocessors` are is for tiles_a_block alone.
template <class T>
void tensor_core_forward(const ForwardParams<T>& params, device::Stream stream,
                         std::int64_t multiprocessors = device::kMultiprocessors);
/// As BackwardParams has it, every query has a key: queries = tokens.
template <class T>
void tensor_core_backward(const BackwardParams<T>& params, device::Stream stream,
                          std::int64_t multiprocessors = device::kMultiprocessors);

/// float32 is not served.
template <>
inline bool tensor_core_serves(const ForwardParams<float>&) {
  return false;
}
template <>
inline bool tensor_core_serves(const BackwardParams<float>&) {
  return false;
}
template <>
inline std::size_t tensor_core_workspace_bytes<float>(const Shape&, const Extent&) {
  return 0;
}
template <>
inline std::size_t tensor_core_backward_workspace_bytes<float>(const Shape&, const Extent&) {
  return 0;
}
template <>
inline void tensor_core_forward(const ForwardParams<float>&, device::Stream, std::int64_t) {
  throw Error(ErrorCode::internal, "tensor cores do not serve float32", "linear attention");
}
template <>
inline void tensor_core_backward(const BackwardParams<float>&, device::Stream, std::int64_t) {
  throw Error(ErrorCode::internal, "tensor cores do not serve float32", "linear attention");
}

}  // namespace hydrascope::kernels::linear_attention::cuda
