// Linear attention on tensor cores: the launches of tensor_core_state.cuh, tensor_core_read_out.cuh,
// tensor_core_query_sums.cuh and tensor_core_backward.cuh.
#include "kernels/device/launch.cuh"
#include "kernels/linear_attention/tensor_core_backward.cuh"
#include "kernels/linear_attention/tensor_core_query_sums.cuh"
#include "kernels/linear_attention/tensor_core_read_out.cuh"
#include "kernels/linear_attention/tensor_core_state.cuh"

#include <cstdint>
#include <type_traits>

namespace hydrascope::kernels::linear_attention::cuda::tensor_core {

/// Sums over tokens on their way to `to`; several runs of tokens go through `workspace`.
template <class T>
TokenSums<T> token_sums(const Rows<const T>& u, const Rows<const T>& x, std::int64_t tokens,
                        const Shape& shape, std::int64_t images, const Workspace& parts,
                        float* workspace, float* to) {
  const auto splits = static_cast<int>(splits_of(tokens, shape.num_heads));
  return {u,
          x,
          tokens,
          tiles_of(tokens),
          splits,
          MapParams(shape),
          State(splits > 1 ? workspace : to, shape, images),
          parts.run_stride};
}
template <class T>
void combine_splits(const TokenSums<T>& sums, const Shape& shape, std::int64_t images, bool keys,
                    float* to, device::Stream stream) {
  if (sums.splits > 1)
    combine(shape, images, sums.sums.data, sums.run_stride, sums.splits, keys, to, stream);
}

template <class T, Kind kind>
void forward_of(const ForwardParams<T>& p, device::Stream stream) {
  const Extent& extent = p.extent;
  if (extent.images == 0 || extent.tokens == 0) return;
  const State state(p.state, p.shape, extent.images);
  const TokenSums<T> keys =
      token_sums(p.k, p.v, extent.tokens, p.shape, extent.images, workspace(p.shape, extent, false),
                 static_cast<float*>(p.workspace), p.state);
  device::launch("tensor_core_state_kernel", tensor_core_state_kernel<T, kind>,
                 state_geometry(extent.images, p.shape.num_heads, extent.tokens), stream,
                 {keys, device::TokenWeights(extent.weights), extent.weights.all_one()});
  combine_splits(keys, p.shape, extent.images, true, p.state, stream);
  if (extent.queries == 0) return;
  ReadOutParams<T> read{};
  read.q = p.q;
  read.y = p.y;
  read.queries = extent.queries;
  read.tiles_a_block = tiles_a_block(extent.images, p.shape.num_heads, extent.queries);
  read.blocks = device::ceil_div(tiles_of(extent.queries), read.tiles_a_block);
  read.map = MapParams(p.shape);
  read.divides = p.shape.rule.divides();
  read.eps = p.shape.rule.normaliser.eps;
  read.state = state;
  read.denominator = p.denominator;
  device::launch("tensor_core_read_out_kernel", tensor_core_read_out_kernel<T, kind>,
                 rows_geometry(extent.images, p.shape.num_heads, extent.queries), stream, read);
}

template <Kind kind>
void backward_of(const BackwardParams<BFloat16>& p, device::Stream stream) {
  const std::int64_t images = p.extent.images;
  const std::int64_t tokens = p.extent.tokens;
  if (images == 0 || tokens == 0) return;
  const State state(p.state, p.shape, images);
  const Workspace parts = workspace(p.shape, p.extent, true);
  auto* const memory = static_cast<float*>(p.workspace);
  float* const gradient = memory + parts.gradient;
  auto* const terms = reinterpret_cast<Term*>(memory + parts.queries);

  RowsParams rows{};
  rows.rows = tokens;
  rows.tiles_a_block = tiles_a_block(images, p.shape.num_heads, tokens);
  rows.blocks = device::ceil_div(tiles_of(tokens), rows.tiles_a_block);
  rows.map = MapParams(p.shape);
  rows.state = state;
  const device::Geometry geometry = rows_geometry(images, p.shape.num_heads, tokens);

  rows.u = p.q;
  rows.x = p.grad_y;
  rows.grad_u = p.grad_q;
  rows.matrix = state;
  device::launch("tensor_core_query_gradient_kernel", tensor_core_query_gradient_kernel<kind>,
                 geometry, stream, {rows, p.y, p.shape.rule.divides(), p.denominator, terms});

  const TokenSums<BFloat16> queries =
      token_sums(p.q, p.grad_y, tokens, p.shape, images, parts, memory, gradient);
  device::launch("tensor_core_query_sums_kernel", tensor_core_query_sums_kernel<kind>,
                 state_geometry(images, p.shape.num_heads, tokens), stream,
                 {queries, terms, state});
  combine_splits(queries, p.shape, images, false, gradient, stream);

  rows.u = p.k;
  rows.x = p.v;
  rows.grad_u = p.grad_k;
  rows.matrix = State(gradient, p.shape, images);
  device::launch(
      "tensor_core_key_gradient_kernel", tensor_core_key_gradient_kernel<kind>, geometry, stream,
      {rows, p.grad_v, device::TokenWeights(p.extent.weights), p.extent.weights.all_one()});
}

/// Calls run.operator()<kind>() with the kind of the map.
template <class T, class Run>
void with_kind(Feature feature, const Run& run) {
  switch (kind_of(feature)) {
    case Kind::pair: return run.template operator()<Kind::pair>();
    case Kind::shifted_pair: return run.template operator()<Kind::shifted_pair>();
    case Kind::single: return run.template operator()<Kind::single>();
    case Kind::plain:
      if constexpr (std::is_same_v<T, BFloat16>) run.template operator()<Kind::plain>();
  }
}
template <class T>
void forward(const ForwardParams<T>& params, device::Stream stream) {
  with_kind<T>(params.shape.rule.feature,
               [&]<Kind kind>() { forward_of<T, kind>(params, stream); });
}
void backward(const BackwardParams<BFloat16>& params, device::Stream stream) {
  with_kind<BFloat16>(params.shape.rule.feature,
                      [&]<Kind kind>() { backward_of<kind>(params, stream); });
}

template void forward(const ForwardParams<BFloat16>&, device::Stream);
template void forward(const ForwardParams<Float16>&, device::Stream);

}  // namespace hydrascope::kernels::linear_attention::cuda::tensor_core
