// The public functions of linear_attention_cuda.h: the choice between the families of kernels, and
// the launches of the general one (simt_state.cuh, simt_read_out.cuh, simt_backward.cuh); those on
// tensor cores are in tensor_core.cu.
#include "kernels/device/launch.cuh"
#include "kernels/error.h"
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "kernels/linear_attention/simt_backward.cuh"
#include "kernels/linear_attention/simt_read_out.cuh"
#include "kernels/linear_attention/simt_state.cuh"
#include "kernels/linear_attention/tensor_core.h"

#include <algorithm>
#include <string>

namespace hydrascope::kernels::linear_attention::cuda {
namespace simt {

using device::Stream;

/// What all launches of a call share.
struct Call {
  Shape shape;
  Extent extent;
  Stream stream;
  Workspace parts;
  float* workspace;

  [[nodiscard]] State state(const float* data) const { return {data, shape, extent.images}; }
  [[nodiscard]] QueryRows queries() const {
    return {workspace + parts.queries, extent.images * shape.num_heads * extent.queries};
  }
};

/// S, z, M of keys or dS, dz of queries, to `to`.
template <class T, Side side>
void sum_tokens(const Call& call, const Rows<const T>& rows, const Rows<const T>& values,
                std::int64_t tokens, const float* state, float* to) {
  const Shape& shape = call.shape;
  const Split split = split_tokens(tokens);
  float* sums = split.count > 1 ? call.workspace : to;
  const Rows<float> stored{sums, shape.head_dim, call.parts.run_stride};
  device::launch("linear_attention_state_kernel", state_kernel<T, side>,
                 state_geometry(shape, call.extent.images, split), call.stream,
                 {Map(shape), rows, values, split, tokens, static_cast<int>(shape.head_dim),
                  token_weights(call.extent), call.state(state), call.queries(), call.state(sums),
                  call.parts.run_stride, packs_of_four(stored, shape.head_dim)});
  if (split.count > 1)
    combine(shape, call.extent.images, sums, call.parts.run_stride, split.count, side == Side::key,
            to, call.stream);
}

template <class T, Side side>
void read_rows(const Call& call, const Rows<const T>& rows, std::int64_t tokens, const float* state,
               const float* matrix, const Rows<T>& to, float* denominator) {
  const Shape& shape = call.shape;
  const float eps = is_exponential(shape.feature) ? 0.0F : shape.eps;
  device::launch("linear_attention_read_out_kernel", read_out_kernel<T, side>,
                 read_out_geometry(shape, call.extent.images, tokens), call.stream,
                 {Map(shape), rows, tokens, static_cast<int>(shape.head_dim),
                  token_weights(call.extent), call.state(state), call.state(matrix), to,
                  packs_of_four(to, shape.head_dim), shape.divides(), eps, denominator});
}

template <class T, Side side>
void gradient_of_rows(const Call& call, const Rows<const T>& rows, const Rows<const T>& values,
                      std::int64_t tokens, const float* state, const float* matrix,
                      const Rows<T>& gradient) {
  const Shape& shape = call.shape;
  const bool pair = shape.features() == 2 * shape.width;
  device::launch("linear_attention_gradient_kernel",
                 pair ? gradient_kernel<T, side, 2> : gradient_kernel<T, side, 1>,
                 row_geometry(shape, call.extent.images, tokens), call.stream,
                 {Map(shape), rows, values, tokens, static_cast<int>(shape.head_dim),
                  token_weights(call.extent), call.state(state), call.state(matrix), call.queries(),
                  gradient, packs_of_four(gradient, shape.width)});
}

template <class T>
void forward(const ForwardParams<T>& p, Stream stream) {
  if (p.extent.images == 0 || p.extent.tokens == 0) return;
  const Call call{p.shape, p.extent, stream, workspace(p.shape, p.extent, false),
                  static_cast<float*>(p.workspace)};
  sum_tokens<T, Side::key>(call, p.k, p.v, p.extent.tokens, nullptr, p.state);
  if (p.extent.queries == 0) return;
  read_rows<T, Side::query>(call, p.q, p.extent.queries, p.state, p.state, p.y, p.denominator);
}

template <class T>
void backward(const BackwardParams<T>& p, Stream stream) {
  if (p.extent.images == 0 || p.extent.queries == 0) return;
  const Call call{p.shape, p.extent, stream, workspace(p.shape, p.extent, true),
                  static_cast<float*>(p.workspace)};
  float* gradient = call.workspace + call.parts.gradient;
  device::launch(
      "linear_attention_query_rows_kernel", query_rows_kernel<T>,
      row_geometry(p.shape, p.extent.images, p.extent.queries), stream,
      {Map(p.shape), p.q, p.y, p.grad_y, p.extent.queries, static_cast<int>(p.shape.head_dim),
       call.state(p.state), p.shape.divides(), p.denominator, call.queries()});
  sum_tokens<T, Side::query>(call, p.q, p.grad_y, p.extent.queries, p.state, gradient);
  gradient_of_rows<T, Side::query>(call, p.q, p.grad_y, p.extent.queries, p.state, p.state,
                                   p.grad_q);
  gradient_of_rows<T, Side::key>(call, p.k, p.v, p.extent.tokens, p.state, gradient, p.grad_k);
  read_rows<T, Side::key>(call, p.k, p.extent.tokens, p.state, gradient, p.grad_v, nullptr);
}

}  // namespace simt

std::size_t state_floats(const Shape& shape, const Extent& extent) {
  return static_cast<std::size_t>(sums_floats(shape, extent.images));
}

/// Enough for both families: alignment and weights, which a shape does not show, decide as well.
template <class T>
std::size_t bytes_of_both(const Shape& shape, const Extent& extent, bool backward) {
  const std::size_t bytes = simt::workspace(shape, extent, backward).bytes();
  if (!tensor_core::serves<T>(shape)) return bytes;
  return std::max(bytes, tensor_core::workspace(shape, extent, backward).bytes());
}
template <class T>
std::size_t workspace_bytes(const Shape& shape, const Extent& extent) {
  return bytes_of_both<T>(shape, extent, /*backward=*/false);
}
template <class T>
std::size_t backward_workspace_bytes(const Shape& shape, const Extent& extent) {
  return bytes_of_both<T>(shape, extent, /*backward=*/true);
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
void check(const void* workspace, const Workspace& needed, const Extent& extent,
           std::int64_t rows) {
  if (workspace == nullptr && needed.floats > 0 && extent.images > 0 && rows > 0)
    throw Error(ErrorCode::internal, "has no workspace", "linear attention");
}

template <class T>
void forward(const ForwardParams<T>& params, device::Stream stream) {
  const Shape& shape = params.shape;
  const Extent& extent = params.extent;
  check(shape, extent);
  if constexpr (sizeof(T) == 2) {
    if (tensor_core::serves(params)) {
      check(params.workspace, tensor_core::workspace(shape, extent, /*backward=*/false), extent,
            extent.tokens);
      return tensor_core::forward(params, stream);
    }
  }
  check(params.workspace, simt::workspace(shape, extent, /*backward=*/false), extent,
        extent.tokens);
  simt::forward(params, stream);
}
template <class T>
void backward(const BackwardParams<T>& params, device::Stream stream) {
  const Shape& shape = params.shape;
  const Extent& extent = params.extent;
  check(shape, extent);
  if constexpr (sizeof(T) == 2) {
    if (tensor_core::serves(params)) {
      check(params.workspace, tensor_core::workspace(shape, extent, /*backward=*/true), extent,
            extent.queries);
      return tensor_core::backward(params, stream);
    }
  }
  check(params.workspace, simt::workspace(shape, extent, /*backward=*/true), extent,
        extent.queries);
  simt::backward(params, stream);
}

template std::size_t workspace_bytes<float>(const Shape&, const Extent&);
template std::size_t workspace_bytes<BFloat16>(const Shape&, const Extent&);
template std::size_t workspace_bytes<Float16>(const Shape&, const Extent&);
template std::size_t backward_workspace_bytes<float>(const Shape&, const Extent&);
template std::size_t backward_workspace_bytes<BFloat16>(const Shape&, const Extent&);
template std::size_t backward_workspace_bytes<Float16>(const Shape&, const Extent&);
template void forward(const ForwardParams<float>&, device::Stream);
template void forward(const ForwardParams<BFloat16>&, device::Stream);
template void forward(const ForwardParams<Float16>&, device::Stream);
template void backward(const BackwardParams<float>&, device::Stream);
template void backward(const BackwardParams<BFloat16>&, device::Stream);
template void backward(const BackwardParams<Float16>&, device::Stream);

}  // namespace hydrascope::kernels::linear_attention::cuda
