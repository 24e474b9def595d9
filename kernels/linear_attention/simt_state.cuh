// The sums over tokens of linear attention (linear_attention.h) in float32 arithmetic:
//   keys:     S_f = sum_t b_tf v_t              z_f = sum_t b_tf    b_tf = w_t exp(W_tf - M_f)
//   queries:  dS_f = sum_i a_if g_i / m_i       dz_f = -sum_i delta_i a_if          (backward)
// then state.cu brings the runs of tokens to one M.
//
// Tensors: k (B, N, H w) or q, v (B, N, H d) or grad_y, by Rows; S (B, H, F, d), z, M (B, H, F)
//   float32, written; of several runs one such set each, to the workspace.
// Geometry: a block of 128 threads sums 64 features x 64 columns of one head over one run of tokens
//   (geometry.h), 32 tokens at a time: operands in shared memory, sums in registers, the next
//   operands on their way to registers during the product.
// Budget: state_kernel: 168 registers, 20352 shared bytes, 3 blocks of 128
// Access: state_kernel<0>: loads 128, 5 x 32; stores 128
// Access: state_kernel<1>: loads 128; stores 128
// Traffic: N (F ceil(d / 64) + d ceil(F / 64)) s per head read, F (d + 2) float32 per run written
//   and, with several, read again. FLOPs 2 N F d per head. ViT-B, Hedgehog, float32: 39 MFLOP and
//   2.4 MB read per image and layer, half of it from L2: 16 FLOP per byte, so bound by the
//   arithmetic.
// Numerics: float32; tokens of a run in their order, z of the eight fours of
//   every 32 tokens apart; runs in their order. M rises as tokens come, and the sums so far are
//   rescaled by exp(M_old - M_new). M starts at -infinity, maps without exponents have M = 0.
//   Nothing depends on other blocks: results are the same for every batch and every time. NaN in k
//   poisons its head, in v its column.
// Preconditions: at least one token.
// Test: tests/kernels/linear_attention/linear_attention_cuda_test.cpp; twins:
//   linear_attention_reference.h beside it.
#pragma once

#include "kernels/linear_attention/simt_tile.cuh"

namespace hydrascope::kernels::linear_attention::cuda::simt {

struct StateParams {
  Map map;
  Rows<const float> rows;    ///< k, or q
  Rows<const float> values;  ///< v, or grad_y
  Split split;
  std::int64_t tokens;
  int dim;             ///< d
  TokenWeights weigh;  ///< keys
  State state;         ///< queries: M
  QueryRows queries;   ///< queries
  State sums;          ///< the first run's
  std::int64_t run_stride;
};

struct StateShared {
  Operand features;   ///< [token][feature]
  Operand values[1];  ///< [token][column]
  RowValues<kStep> rows;
  float parts[kThreads / 16][kTile];  ///< for each four tokens: maxima, then z
  float factor[kTile];
};

/// values[part][tile_column() + c] of all parts as one.
template <class Operation>
__device__ __forceinline__ void of_parts(const float (&parts)[kThreads / 16][kTile],
                                         float (&values)[4], Operation operation) {
#pragma unroll
  for (int part = 0; part < kThreads / 16; ++part) {
    float four[4];
    load_floats(&parts[part][tile_column()], four);
#pragma unroll
    for (int c = 0; c < 4; ++c) values[c] = operation(values[c], four[c]);
  }
}

template <Side side>
__global__ void __launch_bounds__(kThreads, 3) state_kernel(const StateParams p) {
  auto& shared = device::block_shared<StateShared>();
  const Feature feature = p.map.feature;
  const bool exponential = is_exponential(feature);
  // Blocks of the same tokens follow each other: the second finds them in L2.
  const int column_tiles = static_cast<int>(device::ceil_div(p.dim, kTile));
  const int feature_tiles = static_cast<int>(device::ceil_div(p.map.features, kTile));
  const int runs = static_cast<int>(p.split.count);
  int block = static_cast<int>(blockIdx.x);
  const int column_tile = block % column_tiles;
  block /= column_tiles;
  const int feature_tile = block % feature_tiles;
  block /= feature_tiles;
  const int run = block % runs;
  const std::int64_t image = block / runs;
  const std::int64_t head = image * gridDim.y + blockIdx.y;
  const std::int64_t begin = run * p.split.tokens;
  const std::int64_t end = begin + p.split.tokens < p.tokens ? begin + p.split.tokens : p.tokens;

  // A thread makes four columns of both operands for four tokens.
  const int own = fetched_row();
  const int f = feature_tile * kTile + tile_column();
  const int column = column_tile * kTile + tile_column();
  const bool inside = f < p.map.features;
  const bool second = f >= p.map.width;
  const float* rows = at(p.rows, image, begin + own, p.map.width, second ? f - p.map.width : f);
  const float* values = at(p.values, image, begin + own, p.dim, column);
  const auto tokens_left = [&](std::int64_t token) {
    const std::int64_t left = end - token - own;
    return left < 4 ? static_cast<int>(left) : 4;
  };
  Fetched u;
  Fetched v;
  fetch(u, rows, p.rows.stride, tokens_left(begin), inside);
  fetch(v, values, p.values.stride, tokens_left(begin), column < p.dim);

  float maximum[4];
  float z[4] = {};
#pragma unroll
  for (float& of_feature : maximum)
    of_feature = side == Side::key && exponential ? -INFINITY : 0.0F;
  if (side == Side::query && exponential && inside)
    load_floats(p.state.maximum(head * p.map.features + f), maximum);
  Sums sums[1];
  clear(sums[0]);
  for (std::int64_t token = begin; token < end; token += kStep) {
    const int count = end - token < kStep ? static_cast<int>(end - token) : kStep;
    if constexpr (side == Side::query) {
      load_query_rows(shared.rows, p.queries, head * p.tokens + token, count);
      device::block_sync();
    } else if (needs_row(feature)) {
      make_rows(shared.rows, p.map, p.rows, image, token, count);
      device::block_sync();
    }
    const auto of_row = [&](int i) {
      return OfRow{shared.rows.first[own + i], shared.rows.second[own + i]};
    };
    const int own_count = tokens_left(token);
    const TileWeights weigh(p.weigh, token);
    if (exponential) {
      float largest[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const OfRow row = has_rows<side>(feature) ? of_row(i) : OfRow{};
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          u[i][c] = exponent(feature, u[i][c], second, row);
          if (side == Side::key && i < own_count) largest[c] = device::Max()(largest[c], u[i][c]);
          if (side == Side::query) u[i][c] += maximum[c] - shared.rows.row_max[own + i];
        }
      }
      if constexpr (side == Side::key) {
        store_four(&shared.parts[own / 4][tile_column()], largest);
        device::block_sync();
        float factor[4];
#pragma unroll
        for (int c = 0; c < 4; ++c) factor[c] = maximum[c];
        of_parts(shared.parts, maximum, device::Max());
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          factor[c] = expf(factor[c] - maximum[c]);
          z[c] *= factor[c];
        }
        if (own == 0) store_four(&shared.factor[tile_column()], factor);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float inverse_norm = has_rows<side>(feature) ? of_row(i).first : 0.0F;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        float b = 0;
        if (inside && i < own_count) {
          if (exponential) {
            b = expf(side == Side::key ? u[i][c] - maximum[c] : u[i][c]);
          } else {
            b = plain_feature<Natural>(feature, u[i][c], inverse_norm);
          }
          if constexpr (side == Side::key) {
            b *= weigh(own + i);
            z[c] += b;
          } else {
            z[c] -= b * shared.rows.slope[own + i];
            b *= shared.rows.inverse[own + i];
          }
        }
        u[i][c] = b;
      }
    }
    put(shared.features, u);
    put(shared.values[0], v);
    device::block_sync();
    rows += kStep * p.rows.stride;
    values += kStep * p.values.stride;
    const int left = tokens_left(token + kStep);
    fetch(u, rows, p.rows.stride, left, inside);
    fetch(v, values, p.values.stride, left, column < p.dim);
    if (side == Side::key && exponential) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float factor = shared.factor[tile_row(i)];
#pragma unroll
        for (int c = 0; c < 4; ++c) sums[0][i][c] *= factor;
      }
    }
    multiply(sums, shared.features, shared.values, count);
    device::block_sync();
  }

  State to = p.sums;
  to.data += run * p.run_stride;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = feature_tile * kTile + tile_row(i);
    const int first_column = column_tile * kTile + tile_column();
    if (row < p.map.features)
      store_global(to.s(head * p.map.features + row) + first_column, sums[0][i],
                   first_column < p.dim);
  }
  if (column_tile != 0) return;
  store_four(&shared.parts[own / 4][tile_column()], z);
  device::block_sync();
  if (own != 0) return;
  float sum[4] = {};
  of_parts(shared.parts, sum, device::Sum());
  store_global(to.z(head * p.map.features + f), sum, inside);
  if constexpr (side == Side::key)
    store_global(to.maximum(head * p.map.features + f), maximum, inside);
}

}  // namespace hydrascope::kernels::linear_attention::cuda::simt
