// The parts of the float32 kernels of linear attention: operands of 32 x 64 numbers in shared
// memory, their way there from rows, and their product in registers.
//
// Rows, S, z and M are read and written four elements at a time: heads, strides and addresses are
// multiples of four (`serves`), so that no pack has a tail.
#pragma once

#include "kernels/device/block.cuh"
#include "kernels/device/rows.cuh"
#include "kernels/device/vector_io.cuh"
#include "kernels/linear_attention/features.cuh"
#include "kernels/linear_attention/state.cuh"

#include <cstdint>

namespace hydrascope::kernels::linear_attention::cuda::simt {

using device::load_floats;
using device::load_pack;
using device::Pack;
using device::store_pack;
using device::TokenWeights;

/// The features' owner: query and key keep their exponents from overflowing in different ways.
enum class Side { query, key };

/// A map as an argument of kernels.
struct Map {
  Feature feature;
  int width;     ///< w
  int features;  ///< F
  float unit_eps;

  explicit Map(const Shape& shape)
      : feature(shape.rule.feature),
        width(static_cast<int>(shape.width)),
        features(static_cast<int>(shape.features())),
        unit_eps(shape.rule.unit_eps) {}
};

/// OfRow of row u (`width` values), as a collective of groups of `lanes` neighbouring lanes, each with
/// its own row and width (0: nothing is read, the result means nothing). `lane` counts within the
/// group.
template <int lanes>
__device__ __forceinline__ OfRow of_row(Feature feature, const float* u, int width, float unit_eps,
                                        int lane) {
  const auto for_each = [&](const auto& function) {
    for (int j = 4 * lane; j < width; j += 4 * lanes) {
      float four[4];
      load_floats(u + j, four);
#pragma unroll
      for (int c = 0; c < 4; ++c) function(four[c]);
    }
  };
  if (feature == Feature::unit) return norms_of_row<lanes>(unit_eps, for_each);
  if (!needs_row(feature)) return {};
  return shifts_of_row<Natural, lanes>(feature, slope_of(feature), for_each);
}

/// The exponent that element u gives in the first or second part of a map that has exponents.
__device__ __forceinline__ float exponent(Feature feature, float u, bool second, OfRow row) {
  const float x = slope_of(feature) * u;
  return second ? -x - row.second : x - row.first;
}

/// The largest U_f + M_f of a row of queries; a collective like of_row, which gives `row`.
template <int lanes>
__device__ __forceinline__ float largest_exponent(const Map& map, const float* u, int width,
                                                  OfRow row, const float* maximum, int lane) {
  float largest = -INFINITY;
  for (int j = 4 * lane; j < width; j += 4 * lanes) {
    float four[4];
    load_floats(u + j, four);
    for (int part = 0; part * map.width < map.features; ++part) {
      float of_part[4];
      load_floats(maximum + part * map.width + j, of_part);
#pragma unroll
      for (int c = 0; c < 4; ++c)
        largest =
            device::Max()(largest, exponent(map.feature, four[c], part == 1, row) + of_part[c]);
    }
  }
  return device::warp_reduce<lanes>(largest, device::Max());
}

/// Rows of an operand are longer than 64 so that 16-byte writes of neighbouring rows meet different
/// banks.
inline constexpr int kRowFloats = kTile + 4;
/// [k][i] for 32 steps k of the product.
using Operand = float[kStep][kRowFloats];
/// A thread's part of an operand on its way: four rows of four neighbouring elements.
using Fetched = float[4][4];
static_assert(kThreads * 16 == kStep * kTile);

/// 8 x 4 sums per thread: rows tile_row(i), columns tile_column() and the next three.
using Sums = float[8][4];
__device__ __forceinline__ int tile_row(int i) {
  return static_cast<int>(threadIdx.x) / 16 * 4 + i % 4 + i / 4 * 32;
}
__device__ __forceinline__ int tile_column() { return static_cast<int>(threadIdx.x) % 16 * 4; }

__device__ __forceinline__ void clear(Sums& sums) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int c = 0; c < 4; ++c) sums[i][c] = 0;
  }
}

/// Store four neighbouring elements in shared memory, or in a row of global memory if `inside`.
__device__ __forceinline__ void store_four(float* to, const float (&values)[4]) {
  store_pack<4>(to, Pack<float, 4>{{values[0], values[1], values[2], values[3]}});
}
__device__ __forceinline__ void store_global(float* to, const float (&values)[4], bool inside) {
  if (inside)
    device::store_global(to, Pack<float, 4>{{values[0], values[1], values[2], values[3]}});
}

/// Elements from[i * stride + c], i < count; zeros for the rest and unless `inside`.
__device__ __forceinline__ void fetch(Fetched& values, const float* from, std::int64_t stride,
                                      int count, bool inside) {
#pragma unroll
  for (int i = 0; i < 4; ++i, from += stride) {
    Pack<float, 4> row{};
    if (inside && i < count) row = load_pack<4>(from);
#pragma unroll
    for (int c = 0; c < 4; ++c) values[i][c] = row.values[c];
  }
}

/// The thread's rows of an operand whose rows are fetched, at columns tile_column().
__device__ __forceinline__ int fetched_row() { return static_cast<int>(threadIdx.x) / 16 * 4; }
__device__ __forceinline__ void put(Operand& operand, const Fetched& values) {
#pragma unroll
  for (int i = 0; i < 4; ++i) store_four(&operand[fetched_row() + i][tile_column()], values[i]);
}

/// The thread's columns and rows of an operand whose columns are fetched. Eight lanes that write at
/// once have two rows and four columns of packs: all banks.
__device__ __forceinline__ int turned_column() {
  return (device::warp_index() * 4 + device::lane_index() / 2 % 4) * 4;
}
__device__ __forceinline__ int turned_row() {
  return (device::lane_index() / 8 * 2 + device::lane_index() % 2) * 4;
}
__device__ __forceinline__ void put_turned(Operand& operand, const Fetched& values) {
#pragma unroll
  for (int c = 0; c < 4; ++c)
    store_pack<4>(&operand[turned_row() + c][turned_column()],
                  Pack<float, 4>{{values[0][c], values[1][c], values[2][c], values[3][c]}});
}

/// sums[part][i][c] += the sum over k < steps (rounded up to 4) of left[k][row]
/// right[part][k][column].
template <int parts>
__device__ __forceinline__ void multiply(Sums (&sums)[parts], const Operand& left,
                                         const Operand (&right)[parts], int steps) {
  constexpr int kUnrolled = 4 / parts;
  const int row = tile_row(0);
  const int column = tile_column();
  for (int first = 0; first < steps; first += kUnrolled) {
#pragma unroll
    for (int i = 0; i < kUnrolled; ++i) {
      const int k = first + i;
      const Pack<float, 4> low = load_pack<4>(&left[k][row]);
      const Pack<float, 4> high = load_pack<4>(&left[k][row + 32]);
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        const Pack<float, 4> b = load_pack<4>(&right[part][k][column]);
#pragma unroll
        for (int r = 0; r < 4; ++r) {
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            sums[part][r][c] += low.values[r] * b.values[c];
            sums[part][r + 4][c] += high.values[r] * b.values[c];
          }
        }
      }
    }
  }
}

/// Row `token` of a head, elements from `column` on.
template <class T>
__device__ __forceinline__ T* at(const Rows<T>& rows, std::int64_t image, std::int64_t token,
                                 int dim, int column) {
  return device::row_of(rows, image, token) + static_cast<std::int64_t>(blockIdx.y) * dim + column;
}

/// `count`, limited to a tile's rows.
__device__ __forceinline__ int within_tile(std::int64_t count) {
  if (count <= 0) return 0;
  return count < kTile ? static_cast<int>(count) : kTile;
}
/// The weights of a tile's tokens.
class TileWeights {
 public:
  __device__ TileWeights(const TokenWeights& all, std::int64_t first_token)
      : num_prefix_(within_tile(all.num_prefix - first_token)),
        prefix_(all.prefix),
        patch_(all.patch) {}
  __device__ float operator()(int row) const { return row < num_prefix_ ? prefix_ : patch_; }

 private:
  int num_prefix_;
  float prefix_;
  float patch_;
};

/// Numbers of each query for `backward`: planes of (B, H, queries).
struct QueryRows {
  float* data;
  std::int64_t count;  ///< numbers of a plane
  enum Value { first, second, row_max, inverse, slope };
  __device__ float* plane(Value value, std::int64_t at) const {
    return data + static_cast<std::int64_t>(value) * count + at;
  }
};

/// Numbers of each token that a block works on.
template <int tokens>
struct RowValues {
  float first[tokens];  ///< OfRow
  float second[tokens];
  float row_max[tokens];  ///< queries: the largest U + M
  float inverse[tokens];  ///< queries: 1 / m
  float slope[tokens];    ///< queries: delta
};
/// Whether `first` and `second` are there.
template <Side side>
__device__ __forceinline__ bool has_rows(Feature feature) {
  return side == Side::query || needs_row(feature);
}

/// Lanes that share a row to find numbers of the whole row.
inline constexpr int kRowLanes = 8;

/// OfRow of `count` tokens from `token` on, and with a state (queries) the largest U + M.
/// Collective; wants a block_sync after it.
template <int tokens>
__device__ __forceinline__ void make_rows(RowValues<tokens>& values, const Map& map,
                                          const Rows<const float>& rows, std::int64_t image,
                                          std::int64_t token, int count,
                                          const float* maximum = nullptr) {
  const int lane = static_cast<int>(threadIdx.x) % kRowLanes;
  for (int row = static_cast<int>(threadIdx.x) / kRowLanes; row < tokens;
       row += kThreads / kRowLanes) {
    const int width = row < count ? map.width : 0;
    const float* u = at(rows, image, token + (row < count ? row : 0), map.width, 0);
    const OfRow of = of_row<kRowLanes>(map.feature, u, width, map.unit_eps, lane);
    float row_max = 0;
    if (maximum != nullptr) row_max = largest_exponent<kRowLanes>(map, u, width, of, maximum, lane);
    if (lane != 0) continue;
    values.first[row] = of.first;
    values.second[row] = of.second;
    values.row_max[row] = row_max;
  }
}

/// The same and 1 / m and delta, from the planes. `at`: the first token's place in a plane.
template <int tokens>
__device__ __forceinline__ void load_query_rows(RowValues<tokens>& values, const QueryRows& queries,
                                                std::int64_t at, int count) {
  static_assert(tokens <= kThreads);
  const int row = static_cast<int>(threadIdx.x);
  if (row >= tokens) return;
  const bool inside = row < count;
  values.first[row] = inside ? *queries.plane(QueryRows::first, at + row) : 0;
  values.second[row] = inside ? *queries.plane(QueryRows::second, at + row) : 0;
  values.row_max[row] = inside ? *queries.plane(QueryRows::row_max, at + row) : 0;
  values.inverse[row] = inside ? *queries.plane(QueryRows::inverse, at + row) : 0;
  values.slope[row] = inside ? *queries.plane(QueryRows::slope, at + row) : 0;
}

}  // namespace hydrascope::kernels::linear_attention::cuda::simt
