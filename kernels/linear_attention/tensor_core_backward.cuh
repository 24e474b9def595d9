// Gradients of linear attention on tensor cores, row by row; the sums over queries between the two
// passes are tensor_core_query_sums.cuh's. Used in training by Hedgehog and its family with heads
// of 64.
// Equations (Katharopoulos et al. 2020, arXiv 2006.16236, equations 4-6, reversed; M and m are
// constants, which leaves gradients as they are), D_i = g_i . y_i:
//   queries  da_i = (S g_i - D_i z) / m_i                 dq_i = J^T da_i
//   sums     dS = sum_i (a_i / m_i) g_i^T                 dz = - sum_i (a_i / m_i) D_i
//   keys     db_j = w_j (dS v_j + dz)   dv_j = dS^T b_j   dk_j = J^T db_j
// Without normaliser m = 1 and D = 0. Maps with exponents: S_f / z_f stands for S as in
// tensor_core_read_out.cuh, P_if = a_if z_f / m_i sums to 1 over f, and the gradient of an
// exponent is
//   dU_if = P_if ((S_f / z_f) . g_i - D_i)                dW_jf = b_jf (dS_f . v_j + dz_f)
// with dS_f = sum_i P_if g_i / z_f, dz_f = - sum_i P_if D_i / z_f. J is the Jacobian as in
// linear_attention_reference.h, with its rules at points without a derivative.
//
// Tensors: u (q or k), x (grad_y or v), y, grad_u, grad_x (grad_v) as Rows, 16-byte aligned,
//   strides multiples of 8; state and sums float32; terms (B, H, N), written by the pass over
//   queries.
// Geometry: as tensor_core_read_out.cuh: the matrix (S or dS) is rounded to bfloat16 once per block;
//   every warp goes through its own 16 rows of each tile. A product with the transposed matrix has
//   the lane layout of u, so that J^T is element-wise in registers but for sums over a row by four
//   lanes. The gradients of maps that may need such sums wait for them in shared memory, in place
//   of the next tile's copy.
// Traffic: queries 8 N D bytes and 16 N H, keys 8 N D, the sums 4 N D and 16 N H; 2, 4 and 2 N F d
//   FLOPs per head. ViT-B, N = 8161, one layer: 129 MB, 6.4 GFLOP; bound by memory on an H200:
//   129 MB / 4.3 TB/s = 30 us, by arithmetic.
// Numerics: P or a and b, S / z and dS are rounded to bfloat16 once; sums and gradients float32.
//   Deterministic as the forward pass. NaN spreads as in the equations.
// Preconditions: serves() and the alignments, which the launcher has checked; N >= 1.
// Test: tests/kernels/linear_attention/tensor_core_cuda_test.cpp; twin:
//   linear_attention_backward_reference.
//
// Budget: tensor_core_query_gradient_kernel: 168 registers, 42000 shared bytes, 3 blocks of 128
// Access: tensor_core_query_gradient_kernel: loads 128, 6 x 32; stores 128; copies 128; products
// Budget: tensor_core_key_gradient_kernel: 168 registers, 42000 shared bytes, 3 blocks of 128
// Access: tensor_core_key_gradient_kernel: loads 128, 3 x 32; stores 128; copies 128; products
#pragma once

#include "kernels/linear_attention/tensor_core_gradients.cuh"
#include "kernels/linear_attention/tensor_core_query_sums.cuh"

namespace hydrascope::kernels::linear_attention::cuda::tensor_core {

/// Numbers of a lane's rows g and g + 8.
struct LaneRows {
  OfRow terms[2];
  float shifts[2][2];        ///< of both halves' exponents
  float factor[2] = {1, 1};  ///< queries: 1 / m, unless it is part of the shift; keys: the weight
  float product[2] = {};     ///< queries: g . y
  float sums[2][4] = {};     ///< what J^T sums over the row
};

// ---- queries: dq and the terms ------------------------------------------------------------------

struct QueryGradientParams {
  RowsParams rows;
  Rows<const BFloat16> y;
  bool divides;              ///< whether y is divided by m
  const float* denominator;  ///< (B, H, N)
  Term* terms;               ///< (B, H, N), written
};

/// A lane's half of a row's y: two lanes hold a row, in chunks that follow each other.
using HeldRow = device::Pack<BFloat16, kChunk>[kRowChunks / 2];
__device__ __forceinline__ void load_held_row(const BFloat16* head, std::int64_t stride,
                                              std::int64_t first, std::int64_t end, HeldRow& y) {
  const int lane = device::lane_index();
  const std::int64_t row = first + lane / 2;
#pragma unroll
  for (int i = 0; i < kRowChunks / 2; ++i)
    y[i] = row < end ? device::load_pack<kChunk>(head + row * stride + (2 * i + lane % 2) * kChunk)
                     : device::Pack<BFloat16, kChunk>{};
}
/// g_i . y_i of rows g and g + 8.
__device__ __forceinline__ void find_products(const BFloat16* x_rows, const HeldRow& y,
                                              float (&products)[2]) {
  const int lane = device::lane_index();
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kRowChunks / 2; ++i) {
    const auto x = device::load_pack<kChunk>(x_rows + place(lane / 2, 2 * i + lane % 2));
#pragma unroll
    for (int j = 0; j < kChunk; ++j)
      sum = fmaf(device::to_float(x.values[j]), device::to_float(y[i].values[j]), sum);
  }
  sum = device::warp_reduce<2>(sum, device::Sum());
  products[0] = device::shuffle(sum, 2 * (lane / 4));
  products[1] = device::shuffle(sum, 2 * (lane / 4) + 16);
}

/// The gradients of 16 columns of u, whose `words` are given, without the row's part.
template <Kind kind>
__device__ __forceinline__ void query_gradients(const MapParams& map,
                                                const RowsShared<kind>& shared,
                                                const std::uint32_t (&x)[kGroups][4],
                                                const std::uint32_t (&words)[4], int columns,
                                                LaneRows& rows, float (&du)[4][2]) {
  constexpr bool kExponential = KindTraits<kind>::kExponential;
#pragma unroll
  for (int half = 0; half < KindTraits<kind>::kHalves; ++half) {
    const int chunk = half * kRowChunks + 2 * columns;
    float products[2][4] = {};
    multiply_by_rows(x, shared.matrix, chunk, products);
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const int row = word % 2;
      float u[2];
      float of_feature[2];  // the exponent's offset, or z
      unpack<BFloat16>(words[word], u);
      load_two(kExponential ? shared.offsets : shared.feature_values, chunk + word / 2, of_feature);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float of_matrix = products[word / 2][2 * row + i];
        float gradient = 0;
        if constexpr (kExponential) {
          gradient = (of_matrix - rows.product[row]) *
                     power_of_two(exponent_in_twos<kind>(map, u[i], half, of_feature[i],
                                                         rows.shifts[row][half]));
        } else {
          gradient = (of_matrix - rows.product[row] * of_feature[i]) * rows.factor[row];
        }
        pull_back<kind>(map, half, u[i], gradient, rows.terms[row], du[word][i], rows.sums[row]);
      }
    }
  }
}

template <Kind kind>
__global__ void __launch_bounds__(kThreads, 3)
    tensor_core_query_gradient_kernel(const QueryGradientParams p) {
  using Traits = KindTraits<kind>;
  constexpr bool kExponential = Traits::kExponential;
  constexpr bool kWait = WarpRows<kind>::kWait;
  auto& shared = device::block_shared<RowsShared<kind>>();
  WarpRows<kind>& own = shared.warps[device::warp_index()];
  const MapParams& map = p.rows.map;
  const Place at(p.rows);
  const BFloat16* const y_head = head_of(p.y, at.image, at.head);
  const int lane = device::lane_index();
  HeldRow y;
  const auto start = [&](std::int64_t tile) {
    start_tile(p.rows, at, own, tile);
    load_held_row(y_head, p.y.stride, at.row(tile), p.rows.rows, y);
  };
  start(0);
  load_matrix<kind, /*queries=*/true>(p.rows, at, shared);

  for (std::int64_t tile = 0; tile < p.rows.tiles_a_block && at.row(tile) < p.rows.rows; ++tile) {
    device::copy_wait<0>();
    device::warp_sync();
    BFloat16* const u_rows = own.u_of(tile);
    std::uint32_t x[kGroups][4];
    load_left_rows(x, own.rows.x);
    LaneRows rows;
    find_products(own.rows.x, y, rows.product);
    if (!p.divides) rows.product[0] = rows.product[1] = 0;
    device::warp_sync();
    if (!kWait && tile + 1 < p.rows.tiles_a_block) start(tile + 1);

    if constexpr (Traits::kMayNeedRow) {
      if (needs_row_of<kind>(map)) find_terms<BFloat16, kind>(map, u_rows, true, rows.terms);
    }
    float row_max[2] = {};
    if constexpr (kExponential)
      find_row_max<BFloat16, kind>(map, u_rows, shared.feature_values, rows.terms, row_max);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const std::int64_t token = at.row(tile) + lane / 4 + 8 * row;
      const bool inside = token < p.rows.rows;
      const float m = inside ? p.denominator[at.image_head * p.rows.rows + token] : 1.0F;
      if constexpr (kExponential) {
        const float shift = row_max[row] + binary_logarithm(m);
        rows.shifts[row][0] = rows.terms[row].first + shift;
        rows.shifts[row][1] = rows.terms[row].second + shift;
      } else if (p.divides) {
        rows.factor[row] = 1 / m;
      }
      if (inside && lane % 4 == 0)
        p.terms[at.image_head * p.rows.rows + token] = {
            kExponential ? rows.shifts[row][0] : rows.factor[row],
            kExponential ? rows.shifts[row][1] : rows.terms[row].first, rows.product[row], 0};
    }

#pragma unroll(kWait ? 1 : 2)
    for (int columns = 0; columns < kGroups; ++columns) {
      std::uint32_t words[4];
      load_left(words, u_rows, 0, columns);
      float du[4][2];
      query_gradients<kind>(map, shared, x, words, columns, rows, du);
      keep_gradients(own, u_rows, columns, du);
    }
    if constexpr (kWait) release_gradients(map, own, rows.terms, rows.sums, true);
    write_rows(u_rows, head_of(p.rows.grad_u, at.image, at.head), p.rows.grad_u.stride,
               at.row(tile), p.rows.rows);
    if (kWait && tile + 1 < p.rows.tiles_a_block) start(tile + 1);
  }
  device::copy_wait<0>();
}

// ---- keys: dk and dv ----------------------------------------------------------------------------

struct KeyGradientParams {
  RowsParams rows;
  Rows<BFloat16> grad_v;
  device::TokenWeights weights;
  bool weigh_one;  ///< all of them
};

/// The same of keys; adds to dv what 16 columns of k give.
template <Kind kind>
__device__ __forceinline__ void key_gradients(const MapParams& map, const RowsShared<kind>& shared,
                                              const std::uint32_t (&x)[kGroups][4],
                                              const std::uint32_t (&words)[4], int columns,
                                              LaneRows& rows, float (&du)[4][2],
                                              float (&dv)[kRowChunks][4]) {
  constexpr bool kExponential = KindTraits<kind>::kExponential;
#pragma unroll
  for (int half = 0; half < KindTraits<kind>::kHalves; ++half) {
    const int chunk = half * kRowChunks + 2 * columns;
    float products[2][4] = {};
    multiply_by_rows(x, shared.matrix, chunk, products);
    std::uint32_t left[4];
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const int row = word % 2;
      float u[2];
      float offset[2] = {};
      float dz[2];
      float value[2];
      unpack<BFloat16>(words[word], u);
      if constexpr (kExponential) load_two(shared.offsets, chunk + word / 2, offset);
      load_two(shared.feature_values, chunk + word / 2, dz);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        value[i] = feature_of<kind>(map, u[i], half, offset[i], rows.shifts[row][half],
                                    rows.terms[row].first);
        if constexpr (!kExponential) value[i] *= rows.factor[row];
        const float gradient = (products[word / 2][2 * row + i] + dz[i]) *
                               (kExponential ? value[i] : rows.factor[row]);
        pull_back<kind>(map, half, u[i], gradient, rows.terms[row], du[word][i], rows.sums[row]);
      }
      left[word] = device::round_pair(value[0], value[1], BFloat16{});
    }
#pragma unroll
    for (int to = 0; to < kGroups; ++to) {
      std::uint32_t right[4];
      load_right(right, shared.matrix, kChunk * chunk, to);
      multiply_add_both<BFloat16>(dv[2 * to], dv[2 * to + 1], left, right);
    }
  }
}

template <Kind kind>
__global__ void __launch_bounds__(kThreads, 3)
    tensor_core_key_gradient_kernel(const KeyGradientParams p) {
  using Traits = KindTraits<kind>;
  constexpr bool kExponential = Traits::kExponential;
  constexpr bool kWait = WarpRows<kind>::kWait;
  auto& shared = device::block_shared<RowsShared<kind>>();
  WarpRows<kind>& own = shared.warps[device::warp_index()];
  const MapParams& map = p.rows.map;
  const Place at(p.rows);
  start_tile(p.rows, at, own, 0);
  load_matrix<kind, /*queries=*/false>(p.rows, at, shared);

  for (std::int64_t tile = 0; tile < p.rows.tiles_a_block && at.row(tile) < p.rows.rows; ++tile) {
    device::copy_wait<0>();
    device::warp_sync();
    BFloat16* const u_rows = own.u_of(tile);
    std::uint32_t x[kGroups][4];
    load_left_rows(x, own.rows.x);
    device::warp_sync();
    if (!kWait && tile + 1 < p.rows.tiles_a_block) start_tile(p.rows, at, own, tile + 1);

    LaneRows rows;
    if constexpr (Traits::kMayNeedRow) {
      if (needs_row_of<kind>(map)) find_terms<BFloat16, kind>(map, u_rows, false, rows.terms);
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      rows.shifts[row][0] = rows.terms[row].first;
      rows.shifts[row][1] = rows.terms[row].second;
      if (p.weigh_one) continue;
      rows.factor[row] = p.weights.of(at.row(tile) + device::lane_index() / 4 + 8 * row);
      if constexpr (kExponential) {
        const float shift = binary_logarithm(rows.factor[row]);
        rows.shifts[row][0] -= shift;
        rows.shifts[row][1] -= shift;
      }
    }

    float dv[kRowChunks][4] = {};
#pragma unroll(kWait ? 1 : 2)
    for (int columns = 0; columns < kGroups; ++columns) {
      std::uint32_t words[4];
      load_left(words, u_rows, 0, columns);
      float du[4][2];
      key_gradients<kind>(map, shared, x, words, columns, rows, du, dv);
      keep_gradients(own, u_rows, columns, du);
    }
    if constexpr (kWait) release_gradients(map, own, rows.terms, rows.sums, false);
    write_rows(u_rows, head_of(p.rows.grad_u, at.image, at.head), p.rows.grad_u.stride,
               at.row(tile), p.rows.rows);
#pragma unroll
    for (int chunk = 0; chunk < kRowChunks; ++chunk) {
#pragma unroll
      for (int row = 0; row < 2; ++row)
        put_word(u_rows, row, chunk,
                 device::round_pair(dv[chunk][2 * row], dv[chunk][2 * row + 1], BFloat16{}));
    }
    write_rows(u_rows, head_of(p.grad_v, at.image, at.head), p.grad_v.stride, at.row(tile),
               p.rows.rows);
    if (kWait && tile + 1 < p.rows.tiles_a_block) start_tile(p.rows, at, own, tile + 1);
  }
  device::copy_wait<0>();
}

}  // namespace hydrascope::kernels::linear_attention::cuda::tensor_core
