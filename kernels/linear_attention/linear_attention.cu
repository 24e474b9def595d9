// The functions of linear_attention_cuda.h: checks, the launches of tensor_core_state.cuh and
// tensor_core_read_out.cuh, and between them the sums of several parts of the tokens as one:
//   M = max_i M_i    S = sum_i exp(M_i - M) S_i    z alike                    (linear_attention.h)
// or, of maps without exponents, their plain sums.
//
// combine_kernel: a thread adds four columns of a row, parts in their order: deterministic, and the
//   same for an image whatever its batch. NaN stays. Traffic: F (d + 2) floats per part and head.
//
// Budget: combine_kernel: 48 registers, 0 shared bytes, 5 blocks of 256
// Access: combine_kernel: loads 128, 22 x 32; stores 128, 2 x 32
#include "kernels/device/launch.cuh"
#include "kernels/error.h"
#include "kernels/linear_attention/geometry.h"
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "kernels/linear_attention/tensor_core_read_out.cuh"
#include "kernels/linear_attention/tensor_core_state.cuh"

#include <cmath>
#include <string>
#include <type_traits>

namespace hydrascope::kernels::linear_attention::cuda {

struct CombineParams {
  State parts;  ///< the first part's
  std::int64_t part_stride;
  int count;
  int features;
  int blocks;     ///< blocks per head
  bool rescales;  ///< M differs from part to part
  State to;
};

__global__ void __launch_bounds__(kCombineThreads, 5) combine_kernel(const CombineParams p) {
  const auto blocks = static_cast<unsigned>(p.blocks);
  const int groups = p.parts.dim / 4;
  const int item =
      static_cast<int>(blockIdx.x % blocks) * kCombineThreads + static_cast<int>(threadIdx.x);
  const int feature = item / groups;
  const int column = item % groups * 4;
  if (feature >= p.features) return;
  const std::int64_t head = static_cast<std::int64_t>(blockIdx.x / blocks) * gridDim.y + blockIdx.y;
  const std::int64_t row = head * p.features + feature;
  const float* s = p.parts.s(row) + column;
  const float* z = p.parts.z(row);
  const float* maximum = p.parts.maximum(row);

  float largest = 0;
  if (p.rescales) {
    largest = -INFINITY;
#pragma unroll 4
    for (int part = 0; part < p.count; ++part)
      largest = device::Max()(largest, maximum[part * p.part_stride]);
  }
  float sum[4] = {};
  float z_sum = 0;
#pragma unroll 4
  for (int part = 0; part < p.count; ++part) {
    const std::int64_t at = part * p.part_stride;
    const float factor = p.rescales ? expf(maximum[at] - largest) : 1.0F;
    float values[4];
    device::load_floats(s + at, values);
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] = fmaf(values[i], factor, sum[i]);
    z_sum = fmaf(z[at], factor, z_sum);
  }
  device::store_pack(p.to.s(row) + column,
                     device::Pack<float, 4>{{sum[0], sum[1], sum[2], sum[3]}});
  if (column != 0) return;
  *p.to.z(row) = z_sum;
  *p.to.maximum(row) = largest;
}

template <class T, Kind kind>
void forward_of(const ForwardParams<T>& p, device::Stream stream) {
  const Shape& shape = p.shape;
  const Extent& extent = p.extent;
  const State state(p.state, shape, extent.images);
  const auto splits = static_cast<int>(splits_of(extent.tokens, shape.num_heads));
  const std::int64_t stride = part_stride(shape, extent.images);
  const State parts =
      splits > 1 ? State(static_cast<float*>(p.workspace), shape, extent.images) : state;
  device::launch("tensor_core_state_kernel", tensor_core_state_kernel<T, kind>,
                 state_geometry(extent.images, shape.num_heads, extent.tokens), stream,
                 {p.k, p.v, extent.tokens, tiles_of(extent.tokens), splits, MapParams(shape), parts,
                  stride, device::TokenWeights(extent.weights), extent.weights.all_one()});
  if (splits > 1)
    device::launch(
        "linear_attention_combine_kernel", combine_kernel, combine_geometry(shape, extent.images),
        stream,
        {parts, stride, splits, static_cast<int>(shape.features()),
         static_cast<int>(combine_blocks(shape)), is_exponential(shape.rule.feature), state});
  if (extent.queries == 0) return;
  ReadOutParams<T> read{};
  read.q = p.q;
  read.y = p.y;
  read.queries = extent.queries;
  read.tiles_a_block = tiles_a_block(extent.images, shape.num_heads, extent.queries);
  read.blocks = device::ceil_div(tiles_of(extent.queries), read.tiles_a_block);
  read.map = MapParams(shape);
  read.divides = shape.rule.divides();
  read.eps = shape.rule.normaliser.eps;
  read.state = state;
  device::launch("tensor_core_read_out_kernel", tensor_core_read_out_kernel<T, kind>,
                 rows_geometry(extent.images, shape.num_heads, extent.queries), stream, read);
}

std::size_t state_floats(const Shape& shape, const Extent& extent) {
  return static_cast<std::size_t>(sums_floats(shape, extent.images));
}
std::size_t workspace_bytes(const Shape& shape, const Extent& extent) {
  return static_cast<std::size_t>(workspace_floats(shape, extent)) * sizeof(float);
}

template <class T>
void forward(const ForwardParams<T>& p, device::Stream stream) {
  const Shape& shape = p.shape;
  const Extent& extent = p.extent;
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::internal, what, "linear attention");
  };
  if (shape.num_heads < 1 || extent.tokens < 0 || extent.images < 0 || extent.queries < 0 ||
      extent.queries > extent.tokens)
    refuse("expects heads and at most as many queries as tokens; found " +
           std::to_string(shape.num_heads) + " heads, " + std::to_string(extent.queries) +
           " queries of " + std::to_string(extent.tokens) + " tokens");
  if (!serves<T>(shape, extent)) refuse("has no kernel of such heads, map or weights");
  if (extent.images == 0 || extent.tokens == 0) return;
  if (!device::in_packs(p.q) || !device::in_packs(p.k) || !device::in_packs(p.v) ||
      !device::in_packs(p.y) || !device::can_pack(p.state, 0, 4))
    refuse("rows begin where 16 bytes do not");
  if (p.workspace == nullptr && workspace_floats(shape, extent) > 0) refuse("has no workspace");
  switch (kind_of(shape.rule.feature)) {
    case Kind::pair: return forward_of<T, Kind::pair>(p, stream);
    case Kind::shifted_pair: return forward_of<T, Kind::shifted_pair>(p, stream);
    case Kind::single: return forward_of<T, Kind::single>(p, stream);
    case Kind::plain:
      if constexpr (std::is_same_v<T, BFloat16>) forward_of<T, Kind::plain>(p, stream);
  }
}

template void forward(const ForwardParams<BFloat16>&, device::Stream);
template void forward(const ForwardParams<Float16>&, device::Stream);

}  // namespace hydrascope::kernels::linear_attention::cuda
