// Launches of the general kernels of linear attention: see simt_state.cuh, simt_read_out.cuh and
// simt_backward.cuh.
#pragma once

#include "kernels/device/launch.cuh"
#include "kernels/linear_attention/simt_backward.cuh"
#include "kernels/linear_attention/simt_read_out.cuh"
#include "kernels/linear_attention/simt_state.cuh"

namespace hydrascope::kernels::linear_attention::cuda::simt {

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

inline std::size_t workspace_bytes(const Shape& shape, const Extent& extent, bool backward) {
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

}  // namespace hydrascope::kernels::linear_attention::cuda::simt
