// Rows read out of a state in float32 arithmetic:
//   queries:  y_i = (a_i^T S) / m_i    m_i = a_i . z (+ eps)    a_if = exp(U_if + M_f - max_i)
//   keys:     dv_j = b_j^T dS          b_jf = w_j exp(W_jf - M_f)                   (backward)
// with max_i the largest U_if + M_f of the row (linear_attention_cuda.h).
//
// Tensors: q (B, queries, H w) or k (B, N, H w), y or grad_v by Rows; S (B, H, F, d) or dS, and z,
//   M (B, H, F), float32, read; denominator (B, H, queries), written if asked for.
// Geometry: a block of 128 threads makes 64 tokens x 64 columns of one head, 32 features at a time:
//   operands in shared memory, sums in registers, the next operands on their way to registers
//   during the product.
// Budget: read_out_kernel: 160 registers, 18816 shared bytes, 3 blocks of 128
// Access: read_out_kernel<0>: loads 128; stores 128, 1 x 32
// Access: read_out_kernel<1>: loads 128; stores 128
// Traffic: N (F ceil(d / 64) + d) s per head read and written, N w s more by maps of exponents or of
//   a whole row; S once for 64 tokens, from L2. FLOPs
//   2 N F d per head. ViT-B, Hedgehog, float32: 39 MFLOP, 1.8 MB and 1.6 MB of S per image and
//   layer; bound by the arithmetic.
// Numerics: float32; features in their order, a.z of the first and of the second half of every 32
//   features apart. NaN in a query poisons its row of the head. Deterministic: a row depends on
//   nothing but itself and the state.
// Preconditions: at least one token.
// Test: tests/kernels/linear_attention/linear_attention_cuda_test.cpp; twins:
//   linear_attention_reference.h beside it.
#pragma once

#include "kernels/linear_attention/simt_tile.cuh"

namespace hydrascope::kernels::linear_attention::cuda::simt {

struct ReadOutParams {
  Map map;
  Rows<const float> rows;
  std::int64_t tokens;
  int dim;             ///< d
  TokenWeights weigh;  ///< keys
  State state;         ///< z and M of the forward pass
  State matrix;        ///< queries: S, keys: dS
  Rows<float> y;
  bool divides;
  float eps;           ///< added to a.z
  float* denominator;  ///< queries; may be null
};

struct ReadOutShared {
  Operand features;   ///< [feature][token]
  Operand matrix[1];  ///< [feature][column]
  RowValues<kTile> rows;
  float z[kStep];
};

template <Side side>
__global__ void __launch_bounds__(kThreads, 2) read_out_kernel(const ReadOutParams p) {
  auto& shared = device::block_shared<ReadOutShared>();
  const Feature feature = p.map.feature;
  const bool exponential = is_exponential(feature);
  const int column_tiles = static_cast<int>(device::ceil_div(p.dim, kTile));
  const int token_tiles = static_cast<int>(device::ceil_div(p.tokens, kTile));
  int block = static_cast<int>(blockIdx.x);
  const int column_tile = block % column_tiles;
  block /= column_tiles;
  const std::int64_t token = static_cast<std::int64_t>(block % token_tiles) * kTile;
  const std::int64_t image = block / token_tiles;
  const std::int64_t head = image * gridDim.y + blockIdx.y;
  const int count = p.tokens - token < kTile ? static_cast<int>(p.tokens - token) : kTile;

  // A thread makes four features of four tokens, and fetches four columns of four rows of S.
  const int first_token = turned_column();
  const int own_count = count - first_token;
  const float* rows = at(p.rows, image, token + first_token, p.map.width, 0);
  const int first_column = column_tile * kTile + tile_column();
  const float* matrix = p.matrix.s(head * p.map.features + fetched_row()) + first_column;
  Fetched u;
  Fetched s;
  float z[4] = {};
  float maximum[4] = {};
  const auto fetch_step = [&](int first_feature) {
    const int f = first_feature + turned_row();
    const bool inside = f < p.map.features;
    fetch(u, rows + (f < p.map.width ? f : f - p.map.width), p.rows.stride, own_count, inside);
    fetch(s, matrix + static_cast<std::int64_t>(first_feature) * p.dim, p.dim,
          p.map.features - first_feature - fetched_row(), first_column < p.dim);
    const std::int64_t row = head * p.map.features + f;
    if (exponential && inside) load_floats(p.state.maximum(row), maximum);
    if (side == Side::query && p.divides && inside && turned_column() == 0)
      load_floats(p.state.z(row), z);
  };
  fetch_step(0);
  if (has_rows<side>(feature)) {
    make_rows(
        shared.rows, p.map, p.rows, image, token, count,
        side == Side::query && exponential ? p.state.maximum(head * p.map.features) : nullptr);
    device::block_sync();
  }

  const TileWeights weigh(p.weigh, token);
  // Two threads hold a token's m, each the sum over half of the features.
  const int half = static_cast<int>(threadIdx.x) / kTile;
  const int own = static_cast<int>(threadIdx.x) % kTile;
  float m = 0;
  Sums sums[1];
  clear(sums[0]);
  for (int first_feature = 0; first_feature < p.map.features; first_feature += kStep) {
    const int f = first_feature + turned_row();
    const bool second = f >= p.map.width;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = first_token + i;
      const OfRow of = has_rows<side>(feature)
                           ? OfRow{shared.rows.first[row], shared.rows.second[row]}
                           : OfRow{};
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        float a = 0;
        if (f < p.map.features && i < own_count) {
          if (!exponential) {
            a = plain_feature<Natural>(feature, u[i][c], of.first);
          } else if (side == Side::query) {
            a = expf(exponent(feature, u[i][c], second, of) + maximum[c] -
                     shared.rows.row_max[row]);
          } else {
            a = expf(exponent(feature, u[i][c], second, of) - maximum[c]);
          }
          if constexpr (side == Side::key) a *= weigh(row);
        }
        u[i][c] = a;
      }
    }
    put_turned(shared.features, u);
    put(shared.matrix[0], s);
    if (side == Side::query && turned_column() == 0) store_four(&shared.z[turned_row()], z);
    device::block_sync();
    if (first_feature + kStep < p.map.features) fetch_step(first_feature + kStep);
    if (side == Side::query && p.divides) {
#pragma unroll
      for (int i = 0; i < kStep / 2; ++i) {
        const int k = half * (kStep / 2) + i;
        m += shared.features[k][own] * shared.z[k];
      }
    }
    const int left = p.map.features - first_feature;
    multiply(sums, shared.features, shared.matrix, left < kStep ? left : kStep);
    device::block_sync();
  }

  if constexpr (side == Side::query) {
    float* halves = half == 0 ? shared.rows.first : shared.rows.second;
    halves[own] = m;
    device::block_sync();
    if (half == 0) {
      m = p.divides ? shared.rows.first[own] + shared.rows.second[own] + p.eps : 1.0F;
      shared.rows.inverse[own] = 1 / m;
      if (p.denominator != nullptr && column_tile == 0 && own < count)
        p.denominator[head * p.tokens + token + own] = m;
    }
    device::block_sync();
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = tile_row(i);
    if (row >= count) continue;
    if constexpr (side == Side::query) {
#pragma unroll
      for (int c = 0; c < 4; ++c) sums[0][i][c] *= shared.rows.inverse[row];
    }
    store_global(at(p.y, image, token + row, p.dim, first_column), sums[0][i],
                 first_column < p.dim);
  }
}

}  // namespace hydrascope::kernels::linear_attention::cuda::simt
