// What tensor_core_launch.cuh declares.
#pragma once

#include "kernels/device/launch.cuh"
#include "kernels/linear_attention/tensor_core_backward.cuh"
#include "kernels/linear_attention/tensor_core_launch.cuh"
#include "kernels/linear_attention/tensor_core_read_out.cuh"
#include "kernels/linear_attention/tensor_core_state.cuh"

#include <cstddef>
#include <cstdint>

namespace hydrascope::kernels::linear_attention::cuda {
namespace tensor_core {

inline device::TokenWeights token_weights(const cuda::Extent& extent) {
  return {extent.num_prefix, extent.prefix_weight, extent.patch_weight};
}
inline bool weigh_one(const cuda::Extent& extent) {
  return (extent.num_prefix <= 0 || extent.prefix_weight == 1) && extent.patch_weight == 1;
}
inline bool can_weigh(const Shape& shape, const cuda::Extent& extent) {
  return !is_exponential(shape.feature) ||
         ((extent.num_prefix <= 0 || extent.prefix_weight >= 0) && extent.patch_weight >= 0);
}

/// S, z and M one after the other.
template <class Float>
struct Sums {
  Float* rows;
  Float* row_sums;
  Float* maxima;
  Sums(Float* memory, const Shape& shape, std::int64_t images, std::int64_t parts)
      : rows(memory),
        row_sums(rows + images * shape.num_heads * parts * shape.features() * kWidth),
        maxima(row_sums + images * shape.num_heads * parts * shape.features()) {}
};

/// Sums over tokens into `to`, by way of `parts` where there is more than one.
template <class T, Kind kind, bool queries>
void sum_tokens(StateParams<T> params, const Shape& shape, std::int64_t images, float* parts,
                const Sums<float>& to, device::Stream stream) {
  params.tiles = tiles_of(params.tokens);
  params.splits = static_cast<int>(splits_of(params.tokens, shape.num_heads));
  params.map = MapParams(shape);
  const bool several = params.splits > 1;
  const Sums<float> from = several ? Sums<float>(parts, shape, images, params.splits) : to;
  params.sums = from.rows;
  params.row_sums = from.row_sums;
  params.maxima = from.maxima;
  device::launch("tensor_core_state_kernel", tensor_core_state_kernel<T, kind, queries>,
                 state_geometry(images, shape.num_heads, params.tokens), stream, params);
  if (!several) return;
  const CombineParams combine{
      from.rows, from.row_sums, from.maxima, params.splits, static_cast<int>(shape.features()),
      to.rows,   to.row_sums,   to.maxima};
  device::launch("tensor_core_combine_kernel", tensor_core_combine_kernel<!queries>,
                 combine_geometry(images, shape.num_heads, shape.features()), stream, combine);
}

template <class T, Kind kind>
void forward(const ForwardParams<T>& p, device::Stream stream, std::int64_t multiprocessors) {
  const cuda::Extent& extent = p.extent;
  if (extent.images == 0 || extent.tokens == 0) return;
  const Sums<float> state(p.state, p.shape, extent.images, 1);
  StateParams<T> keys{};
  keys.u = p.k;
  keys.x = p.v;
  keys.tokens = extent.tokens;
  keys.weights = token_weights(extent);
  keys.weigh_one = weigh_one(extent);
  sum_tokens<T, kind, false>(keys, p.shape, extent.images, static_cast<float*>(p.workspace), state,
                             stream);
  if (extent.queries == 0) return;
  ReadOutParams<T> read{};
  read.q = p.q;
  read.y = p.y;
  read.queries = extent.queries;
  read.tiles_a_block =
      tiles_a_block(extent.images, p.shape.num_heads, extent.queries, multiprocessors);
  read.blocks = device::ceil_div(tiles_of(extent.queries), read.tiles_a_block);
  read.map = MapParams(p.shape);
  read.divides = p.shape.normaliser == Normaliser::add_eps;
  read.eps = p.shape.eps;
  read.sums = state.rows;
  read.row_sums = state.row_sums;
  read.maxima = state.maxima;
  read.denominator = p.denominator;
  device::launch("tensor_core_read_out_kernel", tensor_core_read_out_kernel<T, kind>,
                 rows_geometry(extent.images, p.shape.num_heads, extent.queries, multiprocessors),
                 stream, read);
}

template <class T, Kind kind>
void backward(const BackwardParams<T>& p, device::Stream stream, std::int64_t multiprocessors) {
  const std::int64_t images = p.extent.images;
  const std::int64_t tokens = p.extent.tokens;
  if (images == 0 || tokens == 0) return;
  const Sums<const float> state(p.state, p.shape, images, 1);
  auto* const memory = static_cast<std::byte*>(p.workspace);
  auto* const parts = reinterpret_cast<float*>(memory);
  auto* const sums = reinterpret_cast<float*>(memory + part_bytes(p.shape, images, tokens));
  auto* const terms = reinterpret_cast<Term*>(memory + part_bytes(p.shape, images, tokens) +
                                              gradient_sum_bytes(p.shape, images));
  const Sums<float> of_queries(sums, p.shape, images, 1);

  RowsBackwardParams<T> rows{};
  rows.rows = tokens;
  rows.tiles_a_block = tiles_a_block(images, p.shape.num_heads, tokens, multiprocessors);
  rows.blocks = device::ceil_div(tiles_of(tokens), rows.tiles_a_block);
  rows.map = MapParams(p.shape);
  rows.weights = token_weights(p.extent);
  rows.weigh_one = weigh_one(p.extent);
  rows.divides = is_exponential(p.shape.feature) || p.shape.normaliser == Normaliser::add_eps;
  rows.denominator = p.denominator;
  rows.row_sums = state.row_sums;
  rows.maxima = state.maxima;
  rows.terms = terms;
  const device::Geometry geometry =
      rows_geometry(images, p.shape.num_heads, tokens, multiprocessors);

  rows.u = p.q;
  rows.x = p.grad_y;
  rows.y = p.y;
  rows.grad_u = p.grad_q;
  rows.matrix = state.rows;
  device::launch("tensor_core_backward_kernel", tensor_core_backward_kernel<T, kind, true>,
                 geometry, stream, rows);

  StateParams<T> queries{};
  queries.u = p.q;
  queries.x = p.grad_y;
  queries.tokens = tokens;
  queries.terms = terms;
  queries.z = state.row_sums;
  queries.maximum = state.maxima;
  sum_tokens<T, kind, true>(queries, p.shape, images, parts, of_queries, stream);

  rows.u = p.k;
  rows.x = p.v;
  rows.grad_u = p.grad_k;
  rows.grad_x = p.grad_v;
  rows.matrix = of_queries.rows;
  rows.matrix_row_sums = of_queries.row_sums;
  device::launch("tensor_core_backward_kernel", tensor_core_backward_kernel<T, kind, false>,
                 geometry, stream, rows);
}

}  // namespace tensor_core

template <class T>
bool tensor_core_serves(const ForwardParams<T>& p) {
  using device::in_packs;
  return tensor_core_serves<T>(p.shape) && tensor_core::can_weigh(p.shape, p.extent) &&
         in_packs(p.q) && in_packs(p.k) && in_packs(p.v) && in_packs(p.y) &&
         device::can_pack(p.state, 0, 4);
}
template <class T>
bool tensor_core_serves(const BackwardParams<T>& p) {
  using device::in_packs;
  return tensor_core_serves<T>(p.shape) && tensor_core::can_weigh(p.shape, p.extent) &&
         in_packs(p.q) && in_packs(p.k) && in_packs(p.v) && in_packs(p.y) && in_packs(p.grad_y) &&
         in_packs(p.grad_q) && in_packs(p.grad_k) && in_packs(p.grad_v) &&
         device::can_pack(p.state, 0, 4);
}

template <class T>
std::size_t tensor_core_workspace_bytes(const Shape& shape, const Extent& extent) {
  return tensor_core::part_bytes(shape, extent.images, extent.tokens);
}
template <class T>
std::size_t tensor_core_backward_workspace_bytes(const Shape& shape, const Extent& extent) {
  return tensor_core::part_bytes(shape, extent.images, extent.tokens) +
         tensor_core::gradient_sum_bytes(shape, extent.images) +
         tensor_core::term_bytes(shape, extent.images, extent.tokens);
}

template <class T>
void tensor_core_forward(const ForwardParams<T>& params, device::Stream stream,
                         std::int64_t multiprocessors) {
  using namespace tensor_core;
  switch (kind_of(params.shape.feature)) {
    case Kind::pair: return tensor_core::forward<T, Kind::pair>(params, stream, multiprocessors);
    case Kind::shifted_pair:
      return tensor_core::forward<T, Kind::shifted_pair>(params, stream, multiprocessors);
    case Kind::single:
      return tensor_core::forward<T, Kind::single>(params, stream, multiprocessors);
    case Kind::plain:
      if constexpr (std::is_same_v<T, BFloat16>)
        return tensor_core::forward<T, Kind::plain>(params, stream, multiprocessors);
  }
}
template <class T>
void tensor_core_backward(const BackwardParams<T>& params, device::Stream stream,
                          std::int64_t multiprocessors) {
  using namespace tensor_core;
  switch (kind_of(params.shape.feature)) {
    case Kind::pair: return tensor_core::backward<T, Kind::pair>(params, stream, multiprocessors);
    case Kind::shifted_pair:
      return tensor_core::backward<T, Kind::shifted_pair>(params, stream, multiprocessors);
    case Kind::single:
      return tensor_core::backward<T, Kind::single>(params, stream, multiprocessors);
    case Kind::plain:
      if constexpr (std::is_same_v<T, BFloat16>)
        return tensor_core::backward<T, Kind::plain>(params, stream, multiprocessors);
  }
}

}  // namespace hydrascope::kernels::linear_attention::cuda
