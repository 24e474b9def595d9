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
// where dS_f = sum_i P_if g_i / z_f, dz_f = - sum_i P_if D_i / z_f. J is that of
// linear_attention_reference.h, with its rules where a map is not differentiable.
//
// Tensors: u (q or k), x (grad_y or v), y, grad_u, grad_x (grad_v) as Rows, 16-byte aligned,
//   strides multiples of 8; state and sums float32; terms (B, H, N), written by the pass over
//   queries.
// Geometry: as tensor_core_read_out.cuh: the matrix (S or dS) is rounded to T once per block; every
//   warp goes through its own 16 rows of each tile. Products with the transposed matrix come out
//   where the words of u lie, so that J^T is element-wise in registers but for sums over a row by
//   four lanes.
// Traffic: queries 8 N D bytes and 16 N H, keys 8 N D, the sums 4 N D and 16 N H; 2, 4 and 2 N F d
//   FLOPs per head. ViT-B, N = 8161, one layer: 129 MB, 6.4 GFLOP; bound by memory on an H200
//   (estimated: 30 us at 4.3 TB/s).
// Numerics: P or a and b, S / z and dS are rounded to T once; sums and gradients float32. For
//   float16 dS is scaled by a power of two that brings its largest element to 2^13. Deterministic
//   as the forward pass. NaN goes where the mathematics says.
// Preconditions: serves() and the alignments, which the launcher has checked; N >= 1.
// Test: tests/kernels/linear_attention/tensor_core_cuda_test.cpp; twin:
//   linear_attention_backward_reference.
//
// Budget: tensor_core_backward_kernel: 168 registers, 42000 shared bytes
#pragma once

#include "kernels/linear_attention/tensor_core_query_sums.cuh"
#include "kernels/linear_attention/tensor_core_read_out.cuh"

namespace hydrascope::kernels::linear_attention::cuda::tensor_core {

template <class T>
struct RowsBackwardParams {
  Rows<const T> u;
  Rows<const T> x;
  Rows<const T> y;  ///< of queries
  Rows<T> grad_u;
  Rows<T> grad_x;  ///< of keys: grad_v
  std::int64_t rows;
  std::int64_t blocks;  ///< of an image's head
  std::int64_t tiles_a_block;
  MapParams map;
  device::TokenWeights weights;  ///< of keys
  bool weigh_one;                ///< all of them
  bool divides;                  ///< whether y is divided by m
  const float* denominator;      ///< of queries (B, H, N)
  State state;                   ///< of the forward pass: z, M
  State matrix;                  ///< of queries: S; of keys: the sums over queries
  Term* terms;                   ///< of queries, written
};

template <class T, int features>
struct RowsBackwardShared {
  T matrix[features * kWidth];
  T u[kWarps][2][kWarpRows * kWidth];  ///< a tile's gradient takes its place
  T x[kWarps][kWarpRows * kWidth];
  float offsets[features];  ///< of the features' exponents, in powers of two
  float feature_values
      [features];  ///< factors of the matrix's rows; then of queries M or z, of keys dz
  float largest[kWarps];
};

/// The power of two that brings the largest of the block's sums, times their rows' factors, to
/// 2^13, for types of a narrow range; 1 for others. A collective of the block.
template <class T, int features>
__device__ __forceinline__ float scale_of(const HeldSums<features>& held, const float* factors,
                                          float* largest) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return 1;
  } else {
    float magnitude = held.largest(factors);
    magnitude = device::warp_reduce(magnitude, device::Max());
    if (device::lane_index() == 0) largest[device::warp_index()] = magnitude;
    device::block_sync();
    magnitude = fmaxf(fmaxf(largest[0], largest[1]), fmaxf(largest[2], largest[3]));
    // 2^(13 - e) for a largest of 2^e to 2^(e + 1), as far as float32 has it.
    const auto exponent = static_cast<int>(std::bit_cast<std::uint32_t>(magnitude) >> 23);
    const int wanted = 127 + 13 + 127 - exponent;
    return std::bit_cast<float>(static_cast<std::uint32_t>(wanted < 1     ? 1
                                                           : wanted > 253 ? 253
                                                                          : wanted)
                                << 23);
  }
}

/// J^T of maps that look at a whole row: `du` is what they would give if they did not, `sums` the
/// sums of both halves' gradients over the row (of `unit`: feature times gradient).
template <Kind kind>
__device__ __forceinline__ float through_row(const MapParams& map, float du, float u,
                                             const OfRow& row, const float (&sums)[4], bool query) {
  if constexpr (kind == Kind::plain) {
    return through_norm(u, du, row, sums[0]);
  } else {
    // Of a query, what is the same for all features changes nothing.
    if (query && map.feature == Feature::softmax_both) return du;
    return du - through_shifts<Binary>(map.feature,
                                       exponent_in_twos<kind>(map, u, 0, 0.0F, row.first),
                                       exponent_in_twos<kind>(map, u, 1, 0.0F, row.second),
                                       {sums[0], sums[1], sums[2], sums[3]});
  }
}

/// g_i . y_i of rows g and g + 8; two lanes have a row's y, in chunks that follow each other.
template <class T>
__device__ __forceinline__ void find_products(const T* x_rows,
                                              const device::Pack<T, kChunk> (&y)[kRowChunks / 2],
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
template <class T>
__device__ __forceinline__ void load_products_rows(const T* head, std::int64_t stride,
                                                   std::int64_t first, std::int64_t end,
                                                   device::Pack<T, kChunk> (&y)[kRowChunks / 2]) {
  const int lane = device::lane_index();
  const std::int64_t row = first + lane / 2;
#pragma unroll
  for (int i = 0; i < kRowChunks / 2; ++i)
    y[i] = row < end ? device::load_pack<kChunk>(head + row * stride + (2 * i + lane % 2) * kChunk)
                     : device::Pack<T, kChunk>{};
}

/// Puts a warp's gradients of columns 16 columns ... where its u was.
template <class T>
__device__ __forceinline__ void put_gradients(T* rows, int columns,
                                              const float (&gradients)[4][2]) {
#pragma unroll
  for (int word = 0; word < 4; ++word)
    put_word(rows, word % 2, 2 * columns + word / 2,
             device::round_pair(gradients[word][0], gradients[word][1], T{}));
}

/// dq and the terms of queries, or dk and dv of keys.
template <class T, Kind kind, bool queries>
__global__ void __launch_bounds__(kThreads, 3)
    tensor_core_backward_kernel(const RowsBackwardParams<T> p) {
  using Traits = KindTraits<kind>;
  constexpr bool kExponential = Traits::kExponential;
  constexpr int kHalves = Traits::kHalves;
  constexpr int kFeatures = Traits::kFeatures;
  // Gradients of u may have to wait for sums over the row. They do so in float32, each lane's own,
  // where the next tile would be on its way, which is started when they have gone.
  constexpr bool kWaits = Traits::kMayNeedRow;
  auto& shared = device::block_shared<RowsBackwardShared<T, kFeatures>>();
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = device::lane_index();
  const int warp = device::warp_index();
  const int group = lane / 4;
  const int head = static_cast<int>(blockIdx.y);
  const auto blocks = static_cast<unsigned>(p.blocks);
  const std::int64_t image = blockIdx.x / blocks;
  const std::int64_t image_head = image * gridDim.y + head;
  const std::int64_t first_tile = blockIdx.x % blocks * p.tiles_a_block;
  const T* const u_head = head_of(p.u, image, head);
  const T* const x_head = head_of(p.x, image, head);
  const T* const y_head = queries ? head_of(p.y, image, head) : nullptr;
  T* const x_rows = shared.x[warp];
  const auto first_row = [&](std::int64_t tile) {
    return (first_tile + tile) * kTileRows + warp * kWarpRows;
  };
  device::Pack<T, kChunk> y[kRowChunks / 2];
  const auto start_tile = [&](std::int64_t tile) {
    start_rows<kWarpRows, 32, false>(shared.u[warp][tile % 2], u_head, p.u.stride, first_row(tile),
                                     p.rows, lane);
    start_rows<kWarpRows, 32, false>(x_rows, x_head, p.x.stride, first_row(tile), p.rows, lane);
    device::copy_commit();
    if constexpr (queries) load_products_rows(y_head, p.y.stride, first_row(tile), p.rows, y);
  };

  start_tile(0);
  HeldSums<kFeatures> held;
  held.load(p.matrix.data + image_head * kFeatures * kWidth);
  const std::int64_t feature = image_head * kFeatures + thread;
  if (thread < kFeatures) {
    shared.feature_values[thread] = kExponential ? inverse_of_sum(*p.state.z(feature)) : 1.0F;
    float offset = 0;
    if constexpr (kExponential) {
      offset = *p.state.maximum(feature) * kLog2E;
      offset = queries ? offset + binary_logarithm(*p.state.z(feature)) : -offset;
    }
    shared.offsets[thread] = offset;
  }
  device::block_sync();
  const float scale = queries ? 1.0F : scale_of<T>(held, shared.feature_values, shared.largest);
  const float unscale = 1 / scale;
  held.put(shared.matrix, shared.feature_values, scale);
  device::block_sync();
  if (thread < kFeatures) {
    if constexpr (!queries) {
      shared.feature_values[thread] *= *p.matrix.z(feature);
    } else {
      shared.feature_values[thread] =
          kExponential ? *p.state.maximum(feature) * kLog2E : *p.state.z(feature);
    }
  }
  device::block_sync();

  for (std::int64_t tile = 0; tile < p.tiles_a_block && first_row(tile) < p.rows; ++tile) {
    device::copy_wait<0>();
    device::warp_sync();
    T* const u_rows = shared.u[warp][tile % 2];
    std::uint32_t x_words[kGroups][4];
#pragma unroll
    for (int columns = 0; columns < kGroups; ++columns)
      load_left(x_words[columns], x_rows, 0, columns);
    float product[2] = {};
    if constexpr (queries) {
      find_products(x_rows, y, product);
      if (!p.divides) product[0] = product[1] = 0;
    }
    device::warp_sync();
    if (!kWaits && tile + 1 < p.tiles_a_block) start_tile(tile + 1);

    OfRow terms[2];
    const bool by_row = Traits::kMayNeedRow && needs_row_of<kind>(p.map);
    if constexpr (Traits::kMayNeedRow) {
      if (by_row) find_terms<T, kind>(p.map, u_rows, queries, terms);
    }
    // Shifts of both halves and what a feature is multiplied by: 1 / m or the token's weight.
    float shifts[2][2];
    float factor[2] = {1, 1};
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      shifts[row][0] = terms[row].first;
      shifts[row][1] = terms[row].second;
    }
    if constexpr (queries) {
      float row_max[2] = {};
      if constexpr (kExponential)
        find_row_max<T, kind>(p.map, u_rows, shared.feature_values, terms, row_max);
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const std::int64_t token = first_row(tile) + group + 8 * row;
        const bool inside = token < p.rows;
        const float m = inside ? p.denominator[image_head * p.rows + token] : 1.0F;
        if constexpr (kExponential) {
          const float shift = row_max[row] + binary_logarithm(m);
          shifts[row][0] += shift;
          shifts[row][1] += shift;
        } else if (p.divides) {
          factor[row] = 1 / m;
        }
        if (inside && lane % 4 == 0)
          p.terms[image_head * p.rows + token] = {kExponential ? shifts[row][0] : factor[row],
                                                  kExponential ? shifts[row][1] : terms[row].first,
                                                  product[row], 0};
      }
    } else if (!p.weigh_one) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        factor[row] = p.weights.of(first_row(tile) + group + 8 * row);
        if constexpr (kExponential) {
          const float shift = binary_logarithm(factor[row]);
          shifts[row][0] -= shift;
          shifts[row][1] -= shift;
        }
      }
    }

    // Where a float32 of a lane waits, in tiles of T.
    const auto waiting = [&](int columns, int i) {
      T* const rows = columns < 2 ? x_rows : shared.u[warp][(tile + 1) % 2];
      return rows + 2 * ((columns % 2 * 8 + i) * 32 + lane);
    };
    float sums[2][4] = {};
    float dv[kRowChunks][4] = {};
#pragma unroll(kWaits ? 1 : 2)
    for (int columns = 0; columns < kGroups; ++columns) {
      std::uint32_t words[4];
      load_left(words, u_rows, 0, columns);
      float du[4][2];
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        const int chunk = half * kRowChunks + 2 * columns;
        float products[2][4] = {};
#pragma unroll
        for (int over = 0; over < kGroups; ++over) {
          std::uint32_t right[4];
          load_right_transposed(right, shared.matrix, kChunk * chunk, over);
          multiply_add_both<T>(products[0], products[1], x_words[over], right);
        }
        std::uint32_t left[4];
#pragma unroll
        for (int word = 0; word < 4; ++word) {
          const int row = word % 2;
          float u[2];
          float offset[2] = {};
          float feature_value[2] = {1, 1};
          float value[2];
          unpack<T>(words[word], u);
          if constexpr (kExponential) load_two(shared.offsets, chunk + word / 2, offset);
          if constexpr (!queries || !kExponential)
            load_two(shared.feature_values, chunk + word / 2, feature_value);
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            value[i] =
                feature_of<kind>(p.map, u[i], half, offset[i], shifts[row][half], terms[row].first);
            if constexpr (!queries && !kExponential) value[i] *= factor[row];
            const float of_matrix = products[word / 2][2 * row + i];
            float gradient = queries ? of_matrix - product[row] * feature_value[i]
                                     : fmaf(of_matrix, unscale, feature_value[i]);
            gradient *= kExponential ? value[i] : factor[row];
            if constexpr (kExponential) {
              const float slope = Traits::kShifted ? p.map.slope * kLn2 : 1.0F;
              if (half == 0) {
                du[word][i] = slope * gradient;
              } else {
                du[word][i] -= slope * gradient;
              }
              if constexpr (Traits::kShifted) {
                sums[row][half] += gradient;
                if (p.map.feature == Feature::exp_centred) {
                  const float largest = half == 0 ? terms[row].first : terms[row].second;
                  if ((half == 0 ? u[i] : -u[i]) * kLog2E == largest) sums[row][2 + half] += 1;
                }
              }
            } else {
              if (p.map.feature == Feature::unit) {
                sums[row][0] = fmaf(u[i] * terms[row].first, gradient, sums[row][0]);
              } else {
                gradient = plain_gradient<Binary>(p.map.feature, u[i], gradient);
              }
              du[word][i] = gradient;
            }
          }
          left[word] = device::round_pair(value[0], value[1], T{});
        }
        if constexpr (!queries) {
#pragma unroll
          for (int to = 0; to < kGroups; ++to) {
            std::uint32_t right[4];
            load_right(right, shared.matrix, kChunk * chunk, to);
            multiply_add_both<T>(dv[2 * to], dv[2 * to + 1], left, right);
          }
        }
      }
      if constexpr (kWaits) {
#pragma unroll
        for (int i = 0; i < 8; ++i) device::store_word(waiting(columns, i), du[i / 2][i % 2]);
      } else {
        device::warp_sync();  // all lanes have taken their words of u, whose place they get
        put_gradients(u_rows, columns, du);
      }
    }
    if constexpr (kWaits) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
#pragma unroll
        for (float& sum : sums[row]) sum = device::warp_reduce<4>(sum, device::Sum());
      }
#pragma unroll 2
      for (int columns = 0; columns < kGroups; ++columns) {
        std::uint32_t words[4];
        load_left(words, u_rows, 0, columns);
        float du[4][2];
#pragma unroll
        for (int word = 0; word < 4; ++word) {
          float u[2];
          unpack<T>(words[word], u);
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            du[word][i] = device::load_word<float>(waiting(columns, 2 * word + i));
            if (by_row)
              du[word][i] = through_row<kind>(p.map, du[word][i], u[i], terms[word % 2],
                                              sums[word % 2], queries);
          }
        }
        device::warp_sync();
        put_gradients(u_rows, columns, du);
      }
      // Every lane has taken its own before the last barrier.
      if (tile + 1 < p.tiles_a_block) start_tile(tile + 1);
    }
    write_rows(u_rows, head_of(p.grad_u, image, head), p.grad_u.stride, first_row(tile), p.rows);
    if constexpr (!queries) {
#pragma unroll
      for (int chunk = 0; chunk < kRowChunks; ++chunk) {
#pragma unroll
        for (int row = 0; row < 2; ++row)
          put_word(u_rows, row, chunk,
                   device::round_pair(dv[chunk][2 * row] * unscale,
                                      dv[chunk][2 * row + 1] * unscale, T{}));
      }
      write_rows(u_rows, head_of(p.grad_x, image, head), p.grad_x.stride, first_row(tile), p.rows);
    }
  }
  device::copy_wait<0>();
}

}  // namespace hydrascope::kernels::linear_attention::cuda::tensor_core
