// The public functions of linear_attention_cuda.h: checks, and the launches of the float32 kernels
// (simt_state.cuh, simt_read_out.cuh, simt_backward.cuh); tensor_core.cu launches the others.
#include "kernels/device/launch.cuh"
#include "kernels/error.h"
#include "kernels/linear_attention/geometry.h"
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "kernels/linear_attention/simt_backward.cuh"
#include "kernels/linear_attention/simt_read_out.cuh"
#include "kernels/linear_attention/simt_state.cuh"

#include <string>

namespace hydrascope::kernels::linear_attention::cuda {
namespace simt {

using device::Stream;

/// The common arguments of a call's launches.
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
template <Side side>
void sum_tokens(const Call& call, const Rows<const float>& rows, const Rows<const float>& values,
                std::int64_t tokens, const float* state, float* to) {
  const Shape& shape = call.shape;
  const Split split = split_tokens(tokens);
  float* sums = split.count > 1 ? call.workspace : to;
  device::launch("linear_attention_state_kernel", state_kernel<side>,
                 state_geometry(shape, call.extent.images, split), call.stream,
                 {Map(shape), rows, values, split, tokens, static_cast<int>(shape.head_dim),
                  TokenWeights(call.extent.weights), call.state(state), call.queries(),
                  call.state(sums), call.parts.run_stride});
  if (split.count > 1)
    combine(shape, call.extent.images, sums, call.parts.run_stride, split.count, side == Side::key,
            to, call.stream);
}

template <Side side>
void read_rows(const Call& call, const Rows<const float>& rows, std::int64_t tokens,
               const float* state, const float* matrix, const Rows<float>& to, float* denominator) {
  const Shape& shape = call.shape;
  const float eps = is_exponential(shape.rule.feature) ? 0.0F : shape.rule.normaliser.eps;
  device::launch("linear_attention_read_out_kernel", read_out_kernel<side>,
                 read_out_geometry(shape, call.extent.images, tokens), call.stream,
                 {Map(shape), rows, tokens, static_cast<int>(shape.head_dim),
                  TokenWeights(call.extent.weights), call.state(state), call.state(matrix), to,
                  shape.rule.divides(), eps, denominator});
}

template <Side side>
void gradient_of_rows(const Call& call, const Rows<const float>& rows,
                      const Rows<const float>& values, std::int64_t tokens, const float* state,
                      const float* matrix, const Rows<float>& gradient) {
  const Shape& shape = call.shape;
  const bool pair = shape.features() == 2 * shape.width;
  device::launch("linear_attention_gradient_kernel",
                 pair ? gradient_kernel<side, 2> : gradient_kernel<side, 1>,
                 row_geometry(shape, call.extent.images, tokens), call.stream,
                 {Map(shape), rows, values, tokens, static_cast<int>(shape.head_dim),
                  TokenWeights(call.extent.weights), call.state(state), call.state(matrix),
                  call.queries(), gradient});
}

void forward(const ForwardParams<float>& p, Stream stream) {
  if (p.extent.images == 0 || p.extent.tokens == 0) return;
  const Call call{p.shape, p.extent, stream, workspace(p.shape, p.extent, false),
                  static_cast<float*>(p.workspace)};
  sum_tokens<Side::key>(call, p.k, p.v, p.extent.tokens, nullptr, p.state);
  if (p.extent.queries == 0) return;
  read_rows<Side::query>(call, p.q, p.extent.queries, p.state, p.state, p.y, p.denominator);
}

void backward(const BackwardParams<float>& p, Stream stream) {
  if (p.extent.images == 0 || p.extent.queries == 0) return;
  const Call call{p.shape, p.extent, stream, workspace(p.shape, p.extent, true),
                  static_cast<float*>(p.workspace)};
  float* gradient = call.workspace + call.parts.gradient;
  device::launch(
      "linear_attention_query_rows_kernel", query_rows_kernel,
      row_geometry(p.shape, p.extent.images, p.extent.queries), stream,
      {Map(p.shape), p.q, p.y, p.grad_y, p.extent.queries, static_cast<int>(p.shape.head_dim),
       call.state(p.state), p.shape.rule.divides(), p.denominator, call.queries()});
  sum_tokens<Side::query>(call, p.q, p.grad_y, p.extent.queries, p.state, gradient);
  gradient_of_rows<Side::query>(call, p.q, p.grad_y, p.extent.queries, p.state, p.state, p.grad_q);
  gradient_of_rows<Side::key>(call, p.k, p.v, p.extent.tokens, p.state, gradient, p.grad_k);
  read_rows<Side::key>(call, p.k, p.extent.tokens, p.state, gradient, p.grad_v, nullptr);
}

}  // namespace simt

std::size_t state_floats(const Shape& shape, const Extent& extent) {
  return static_cast<std::size_t>(sums_floats(shape, extent.images));
}

template <class T>
std::size_t workspace_bytes(const Shape& shape, const Extent& extent) {
  return workspace<T>(shape, extent, /*backward=*/false).bytes();
}
template <class T>
std::size_t backward_workspace_bytes(const Shape& shape, const Extent& extent) {
  return workspace<T>(shape, extent, /*backward=*/true).bytes();
}

/// `count`: tokens of the forward pass, queries of the backward pass; 0: the pass does nothing.
template <class T, class... Tensors>
void check(const Shape& shape, const Extent& extent, const void* memory, const Workspace& needed,
           std::int64_t count, const float* state, const Tensors&... rows) {
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::internal, what, "linear attention");
  };
  if (shape.num_heads < 1 || shape.width < 1 || shape.head_dim < 1 || extent.tokens < 0 ||
      extent.images < 0 || extent.queries < 0 || extent.queries > extent.tokens)
    refuse("expects heads with elements and at most as many queries as tokens; found " +
           std::to_string(shape.num_heads) + " heads of " + std::to_string(shape.width) + " and " +
           std::to_string(shape.head_dim) + ", " + std::to_string(extent.queries) + " queries of " +
           std::to_string(extent.tokens) + " tokens");
  if (!serves<T>(shape, extent)) refuse("has no kernel of such heads, map or weights");
  if (extent.images == 0 || count == 0) return;
  if (!(device::in_packs(rows) && ...) || !device::can_pack(state, 0, 4))
    refuse("rows begin where 16 bytes do not");
  if (memory == nullptr && needed.floats > 0) refuse("has no workspace");
}

template <class T>
void forward(const ForwardParams<T>& p, device::Stream stream) {
  check<T>(p.shape, p.extent, p.workspace, workspace<T>(p.shape, p.extent, /*backward=*/false),
           p.extent.tokens, p.state, p.q, p.k, p.v, p.y);
  if constexpr (sizeof(T) == 2) {
    tensor_core::forward(p, stream);
  } else {
    simt::forward(p, stream);
  }
}
template <class T>
void backward(const BackwardParams<T>& p, device::Stream stream) {
  check<T>(p.shape, p.extent, p.workspace, workspace<T>(p.shape, p.extent, /*backward=*/true),
           p.extent.queries, p.state, p.q, p.k, p.v, p.y, p.grad_y, p.grad_q, p.grad_k, p.grad_v);
  if constexpr (sizeof(T) == 2) {
    if (p.extent.queries != p.extent.tokens)
      throw Error(ErrorCode::internal, "needs a query of every token", "linear attention");
    tensor_core::backward(p, stream);
  } else {
    simt::backward(p, stream);
  }
}

template std::size_t workspace_bytes<float>(const Shape&, const Extent&);
template std::size_t workspace_bytes<BFloat16>(const Shape&, const Extent&);
template std::size_t workspace_bytes<Float16>(const Shape&, const Extent&);
template std::size_t backward_workspace_bytes<float>(const Shape&, const Extent&);
template std::size_t backward_workspace_bytes<BFloat16>(const Shape&, const Extent&);
template void forward(const ForwardParams<float>&, device::Stream);
template void forward(const ForwardParams<BFloat16>&, device::Stream);
template void forward(const ForwardParams<Float16>&, device::Stream);
template void backward(const BackwardParams<float>&, device::Stream);
template void backward(const BackwardParams<BFloat16>&, device::Stream);

}  // namespace hydrascope::kernels::linear_attention::cuda
