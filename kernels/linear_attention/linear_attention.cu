// The public functions of linear_attention_cuda.h: the choice between the families of kernels, and
// the launches of the general one (simt_state.cuh, simt_read_out.cuh, simt_backward.cuh); those on
// tensor cores are in tensor_core_run.cuh.
#include "kernels/device/launch.cuh"
#include "kernels/error.h"
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "kernels/linear_attention/simt_backward.cuh"
#include "kernels/linear_attention/simt_read_out.cuh"
#include "kernels/linear_attention/simt_state.cuh"
#include "kernels/linear_attention/tensor_core_launch.cuh"

#include <algorithm>
#include <string>

namespace hydrascope::kernels::linear_attention::cuda {
namespace simt {

using device::Stream;

/// Whether y is divided by a.z (+ eps).
constexpr bool divides(const Shape& shape) {
  return is_exponential(shape.feature) || shape.normaliser == Normaliser::add_eps;
}

/// What all launches of a call share.
struct Call {
  Shape shape;
  Extent extent;
  Stream stream;
  Workspace parts;
  float* workspace;

  [[nodiscard]] State state(const float* data) const {
    // Who reads through it does not write; one type serves both.
    return {const_cast<float*>(data), extent.images * shape.num_heads * shape.features(),
            static_cast<int>(shape.head_dim)};
  }
  [[nodiscard]] TokenWeights weights() const {
    return {extent.num_prefix, extent.prefix_weight, extent.patch_weight};
  }
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
  float* sums = split.count > 1 ? call.workspace + call.parts.runs : to;
  const Rows<float> stored{sums, shape.head_dim, call.parts.run_stride};
  device::launch("linear_attention_state_kernel", state_kernel<T, side>,
                 state_geometry(shape, call.extent.images, split), call.stream,
                 {Map(shape), rows, values, split, tokens, static_cast<int>(shape.head_dim),
                  call.weights(), call.state(state), call.queries(), call.state(sums),
                  call.parts.run_stride, packs_of_four(stored, shape.head_dim)});
  if (split.count == 1) return;
  device::launch(
      "linear_attention_combine_kernel", combine_kernel<T>,
      combine_geometry(shape, call.extent.images), call.stream,
      {call.state(sums), call.parts.run_stride, static_cast<int>(split.count),
       side == Side::key && is_exponential(shape.feature), side == Side::key, call.state(to)});
}

template <class T, Side side>
void read_rows(const Call& call, const Rows<const T>& rows, std::int64_t tokens, const float* state,
               const float* matrix, const Rows<T>& to, float* denominator) {
  const Shape& shape = call.shape;
  const float eps = is_exponential(shape.feature) ? 0.0F : shape.eps;
  device::launch("linear_attention_read_out_kernel", read_out_kernel<T, side>,
                 read_out_geometry(shape, call.extent.images, tokens), call.stream,
                 {Map(shape), rows, tokens, static_cast<int>(shape.head_dim), call.weights(),
                  call.state(state), call.state(matrix), to, packs_of_four(to, shape.head_dim),
                  divides(shape), eps, denominator});
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
                  call.weights(), call.state(state), call.state(matrix), call.queries(), gradient,
                  packs_of_four(gradient, shape.width)});
}

std::size_t workspace_bytes(const Shape& shape, const Extent& extent, bool backward) {
  return static_cast<std::size_t>(workspace(shape, extent, backward).floats) * sizeof(float);
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
       call.state(p.state), divides(p.shape), p.denominator, call.queries()});
  sum_tokens<T, Side::query>(call, p.q, p.grad_y, p.extent.queries, p.state, gradient);
  gradient_of_rows<T, Side::query>(call, p.q, p.grad_y, p.extent.queries, p.state, p.state,
                                   p.grad_q);
  gradient_of_rows<T, Side::key>(call, p.k, p.v, p.extent.tokens, p.state, gradient, p.grad_k);
  read_rows<T, Side::key>(call, p.k, p.extent.tokens, p.state, gradient, p.grad_v, nullptr);
}

}  // namespace simt

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
