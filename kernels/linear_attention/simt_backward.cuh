// The backward pass of linear attention beside its sums over tokens (simt_state.cuh) and the rows
// read out (simt_read_out.cuh), in float32 arithmetic. M, max_i and m are constants of the
// derivative (linear_attention_cuda.h):
//   delta_i = (g_i . y_i) / m_i               query_rows_kernel (without a normaliser 0, m_i = 1)
//   dS = sum_i a_i g_i^T / m_i                state_kernel
//   dz = -sum_i delta_i a_i
//   dq_i = J(q_i)^T (S g_i / m_i - delta_i z)   gradient_kernel, queries
//   dk_j = J(k_j)^T w_j (dS v_j + dz)           gradient_kernel, keys
//   dv_j = dS^T (w_j b_j)                     read_out_kernel
// Features are made again from q and k; J^T by features.cuh.
//
// query_rows_kernel writes values of each query to planes of (B, H, queries) float32: the map's two
// numbers of the row, the largest U + M, 1 / m and delta, which the other kernels then read.
// Tensors: q, grad_y, y or k, v by Rows, read; grad_q or grad_k by Rows, written; S, z, M of the
//   forward pass, dS, dz, float32, read.
// Geometry: a block of 128 threads has 64 tokens of one head. gradient: 64 elements of their rows
//   at a time, of both parts of the features, in steps of 32 of the d columns; the products then
//   take the operands' place in shared memory. Maps whose J^T sums over a row make the products
//   twice if w > 64.
// Budget: query_rows_kernel: 56 registers, 0 shared bytes, 9 blocks of 128
// Access: query_rows_kernel: loads 128, 1 x 32; stores 5 x 32
// Budget: gradient_kernel: 168 registers, 37120 shared bytes, 3 blocks of 128; 184 registers elsewhere
// Access: gradient_kernel<0, *>: loads 128, 5 x 32; stores 128
// Access: gradient_kernel<1, *>: loads 128; stores 128
// Traffic: query_rows: N (w + 2 d) s read, 20 N written per head. gradient: N (d + 2 w) s per head,
//   S once for 64 tokens from L2. FLOPs 2 N F d per head and side, 8 N F d in the whole backward
//   pass. ViT-B, Hedgehog, float32: 155 MFLOP and 10 MB per image and layer; bound by the
//   arithmetic.
// Numerics: float32, columns in their order; y as stored. Deterministic. A NaN spreads as in the
//   equations: from a query's row of q or grad_y, by dS, to all keys and values.
// Preconditions: at least one query (query_rows) or token.
// Test: tests/kernels/linear_attention/linear_attention_cuda_test.cpp; twin:
//   linear_attention_backward_reference.
#pragma once

#include "kernels/linear_attention/simt_tile.cuh"

namespace hydrascope::kernels::linear_attention::cuda::simt {

struct QueryRowsParams {
  Map map;
  Rows<const float> q;
  Rows<const float> y;
  Rows<const float> grad_y;
  std::int64_t tokens;
  int dim;
  State state;
  bool divides;
  const float* denominator;
  QueryRows to;
};

__global__ void __launch_bounds__(kThreads, 9) query_rows_kernel(const QueryRowsParams p) {
  const int tiles = static_cast<int>(device::ceil_div(p.tokens, kTile));
  const int block = static_cast<int>(blockIdx.x);
  const std::int64_t first_token = static_cast<std::int64_t>(block % tiles) * kTile;
  const std::int64_t image = block / tiles;
  const std::int64_t head = image * gridDim.y + blockIdx.y;
  const int lane = static_cast<int>(threadIdx.x) % kRowLanes;
  for (int i = static_cast<int>(threadIdx.x) / kRowLanes; i < kTile; i += kThreads / kRowLanes) {
    const bool inside = first_token + i < p.tokens;
    const std::int64_t token = inside ? first_token + i : first_token;
    const int width = inside ? p.map.width : 0;
    const float* u = at(p.q, image, token, p.map.width, 0);
    const OfRow of = of_row<kRowLanes>(p.map.feature, u, width, p.map.unit_eps, lane);
    float row_max = 0;
    if (is_exponential(p.map.feature))
      row_max = largest_exponent<kRowLanes>(p.map, u, width, of,
                                            p.state.maximum(head * p.map.features), lane);
    const float* y = at(p.y, image, token, p.dim, 0);
    const float* g = at(p.grad_y, image, token, p.dim, 0);
    float along = 0;
    for (int c = 4 * lane; inside && c < p.dim; c += 4 * kRowLanes) {
      float of_g[4];
      float of_y[4];
      load_floats(g + c, of_g);
      load_floats(y + c, of_y);
#pragma unroll
      for (int j = 0; j < 4; ++j) along += of_g[j] * of_y[j];
    }
    along = device::warp_reduce<kRowLanes>(along, device::Sum());
    if (lane != 0 || !inside) continue;
    const std::int64_t row = head * p.tokens + token;
    const float inverse = p.divides ? 1 / p.denominator[row] : 1.0F;
    *p.to.plane(QueryRows::first, row) = of.first;
    *p.to.plane(QueryRows::second, row) = of.second;
    *p.to.plane(QueryRows::row_max, row) = row_max;
    *p.to.plane(QueryRows::inverse, row) = inverse;
    *p.to.plane(QueryRows::slope, row) = p.divides ? along * inverse : 0.0F;
  }
}

struct GradientParams {
  Map map;
  Rows<const float> rows;    ///< q, or k
  Rows<const float> values;  ///< grad_y, or v
  std::int64_t tokens;
  int dim;               ///< d
  TokenWeights weigh;    ///< keys
  State state;           ///< the forward pass's: M
  State matrix;          ///< queries: S and z, keys: dS and dz
  QueryRows queries;     ///< queries
  Rows<float> gradient;  ///< grad_q, or grad_k
};

/// The gradient of one element's feature or, in maps with exponents, of its exponents in both parts
/// (0 without a second part).
struct OfParts {
  float first;
  float second;
};
/// The addends of one element to GradientSums.
__device__ __forceinline__ GradientSums gradient_terms(Feature feature, float u, OfRow row,
                                                       OfParts gradient) {
  if (feature == Feature::unit) return {u * row.first * gradient.first, 0, 0, 0};
  const bool centred = feature == Feature::exp_centred;
  return {gradient.first, gradient.second,
          centred && exponent(feature, u, false, row) == 0 ? 1.0F : 0.0F,
          centred && exponent(feature, u, true, row) == 0 ? 1.0F : 0.0F};
}

/// J^T: the gradient of u. `sums` is read if needs_row.
__device__ __forceinline__ float pulled_back(Feature feature, float u, OfRow row, OfParts gradient,
                                             const GradientSums& sums) {
  if (feature < Feature::unit) return plain_gradient<Natural>(feature, u, gradient.first);
  if (feature == Feature::unit) return through_norm(u, gradient.first, row, sums.first);
  const float du = slope_of(feature) * (gradient.first - gradient.second);
  if (!needs_row(feature)) return du;
  return du - through_shifts<Natural>(feature, exponent(feature, u, false, row),
                                      exponent(feature, u, true, row), sums);
}

template <int parts>
struct GradientShared {
  union {
    struct {
      Operand values;         ///< [column][token]
      Operand matrix[parts];  ///< [column][feature]
    } operands;
    float products[parts][kTile][kRowFloats];  ///< [token][element]
  };
  RowValues<kTile> rows;
  GradientSums sums[kTile];  ///< for rows longer than a tile
};

/// The sums over 16 neighbouring lanes, which hold one row of the tile.
__device__ __forceinline__ GradientSums of_lanes(Feature feature, GradientSums sums) {
  using device::Sum;
  using device::warp_reduce;
  sums.first = warp_reduce<16>(sums.first, Sum());
  if (feature == Feature::unit) return sums;
  sums.second = warp_reduce<16>(sums.second, Sum());
  if (feature != Feature::exp_centred) return sums;
  sums.first_maxima = warp_reduce<16>(sums.first_maxima, Sum());
  sums.second_maxima = warp_reduce<16>(sums.second_maxima, Sum());
  return sums;
}

/// products = values . matrix^T for elements `tile` and the next 63, of each part. A collective
/// that ends with a block_sync.
template <int parts>
__device__ __forceinline__ void multiply_by_matrix(GradientShared<parts>& shared,
                                                   const GradientParams& p, std::int64_t image,
                                                   std::int64_t token, int count,
                                                   std::int64_t state_row, int tile) {
  const int first_row = turned_column();
  Sums sums[parts];
#pragma unroll
  for (int part = 0; part < parts; ++part) clear(sums[part]);
  for (int first_column = 0; first_column < p.dim; first_column += kStep) {
    const int column = first_column + turned_row();
    Fetched fetched;
    fetch(fetched, at(p.values, image, token + first_row, p.dim, column), p.values.stride,
          count - first_row, column < p.dim);
    device::block_sync();  // all have read the memory that is overwritten now
    put_turned(shared.operands.values, fetched);
#pragma unroll
    for (int part = 0; part < parts; ++part) {
      fetch(fetched, p.matrix.s(state_row + part * p.map.width + tile + first_row) + column, p.dim,
            p.map.width - tile - first_row, column < p.dim);
      put_turned(shared.operands.matrix[part], fetched);
    }
    device::block_sync();
    const int left = p.dim - first_column;
    multiply(sums, shared.operands.values, shared.operands.matrix, left < kStep ? left : kStep);
  }
  device::block_sync();
#pragma unroll
  for (int part = 0; part < parts; ++part) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      store_four(&shared.products[part][tile_row(i)][tile_column()], sums[part][i]);
  }
  device::block_sync();
}

/// The gradient of one feature or, in maps with exponents, one exponent; `z`, `maximum`: its own.
template <Side side, int parts>
__device__ __forceinline__ float gradient_of_feature(const GradientShared<parts>& shared,
                                                     const GradientParams& p,
                                                     const TileWeights& weigh, int row, float z,
                                                     float maximum, int column, int part, float u,
                                                     OfRow of) {
  float value = shared.products[part][row][column];
  if constexpr (side == Side::query) {
    value = value * shared.rows.inverse[row] - shared.rows.slope[row] * z;
  } else {
    value = weigh(row) * (value + z);
  }
  if (!is_exponential(p.map.feature)) return value;
  const float x = exponent(p.map.feature, u, part == 1, of);
  return value * expf(side == Side::query ? x + maximum - shared.rows.row_max[row] : x - maximum);
}

template <Side side, int parts>
__global__ void __launch_bounds__(kThreads, parts == 2 ? 2 : 3)
    gradient_kernel(const GradientParams p) {
  auto& shared = device::block_shared<GradientShared<parts>>();
  const Feature feature = p.map.feature;
  const int token_tiles = static_cast<int>(device::ceil_div(p.tokens, kTile));
  const int block = static_cast<int>(blockIdx.x);
  const std::int64_t token = static_cast<std::int64_t>(block % token_tiles) * kTile;
  const std::int64_t image = block / token_tiles;
  const std::int64_t head = image * gridDim.y + blockIdx.y;
  const std::int64_t state_row = head * p.map.features;
  const int count = p.tokens - token < kTile ? static_cast<int>(p.tokens - token) : kTile;

  if constexpr (side == Side::query) {
    load_query_rows(shared.rows, p.queries, head * p.tokens + token, count);
  } else if (needs_row(feature)) {
    make_rows(shared.rows, p.map, p.rows, image, token, count);
  }
  const TileWeights weigh(p.weigh, token);
  // Sums over rows longer than a tile are found in a pass before.
  const bool sums_first = needs_row(feature) && p.map.width > kTile;
  for (int pass = sums_first ? 0 : 1; pass < 2; ++pass) {
    for (int tile = 0; tile < p.map.width; tile += kTile) {
      multiply_by_matrix<parts>(shared, p, image, token, count, state_row, tile);
      // 16 lanes hold a row, four elements each.
      const int element = tile + tile_column();
      const bool inside = element < p.map.width;
      float z[parts][4] = {};
      float maximum[parts][4] = {};
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        const std::int64_t of_part = state_row + part * p.map.width + element;
        if (inside) load_floats(p.matrix.z(of_part), z[part]);
        if (inside && is_exponential(feature)) load_floats(p.state.maximum(of_part), maximum[part]);
      }
#pragma unroll 1
      for (int row = static_cast<int>(threadIdx.x) / 16; row < kTile; row += kThreads / 16) {
        const OfRow of = has_rows<side>(feature)
                             ? OfRow{shared.rows.first[row], shared.rows.second[row]}
                             : OfRow{};
        const float* from = at(p.rows, image, token + row, p.map.width, element);
        float u[4] = {};
        if (row < count && inside) load_floats(from, u);
        OfParts gradient[4];
        GradientSums of_all;
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          gradient[c] = {0, 0};
          if (row >= count || !inside) continue;
          float of_part[2] = {0, 0};
#pragma unroll
          for (int part = 0; part < parts; ++part)
            of_part[part] =
                gradient_of_feature<side>(shared, p, weigh, row, z[part][c], maximum[part][c],
                                          tile_column() + c, part, u[c], of);
          gradient[c] = {of_part[0], of_part[1]};
          if (!needs_row(feature)) continue;
          const GradientSums terms = gradient_terms(feature, u[c], of, gradient[c]);
          of_all.first += terms.first;
          of_all.second += terms.second;
          of_all.first_maxima += terms.first_maxima;
          of_all.second_maxima += terms.second_maxima;
        }
        if (needs_row(feature)) of_all = of_lanes(feature, of_all);
        if (sums_first) {
          GradientSums& kept = shared.sums[row];
          if (pass == 0) {
            if (tile_column() != 0) continue;
            if (tile > 0) {
              of_all.first += kept.first;
              of_all.second += kept.second;
              of_all.first_maxima += kept.first_maxima;
              of_all.second_maxima += kept.second_maxima;
            }
            kept = of_all;
            continue;
          }
          of_all = kept;
        }
        if (row >= count) continue;
        float du[4];
#pragma unroll
        for (int c = 0; c < 4; ++c) du[c] = pulled_back(feature, u[c], of, gradient[c], of_all);
        store_global(at(p.gradient, image, token + row, p.map.width, element), du, inside);
      }
    }
  }
}

}  // namespace hydrascope::kernels::linear_attention::cuda::simt
