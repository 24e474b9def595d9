// y_i = a_i^T S / m_i of linear attention on tensor cores (linear_attention.h, equations there).
// Used by Hedgehog and its family in every layer of 16-bit networks with heads of 64.
//
// S goes into the product as S_f / z_f, a weighted mean of values that float16 holds, and the
// features as a_f z_f, whose exponent is U_f + M_f + log z_f: they are at most 1, and m is their
// sum. Maps without exponents multiply with S itself, and z in two halves of T.
//
// Tensors: q, y as Rows, 16-byte aligned, strides multiples of 8; state as linear_attention_cuda.h
//   has it.
// Geometry: tiles_a_block tiles of 64 rows per block, 128 threads. S is rounded to T once per
//   block; then every warp goes through its own 16 rows of each tile and waits for no other.
//   Features are left operands in registers; rows of y are gathered in shared memory, so that they
//   are written whole.
// Traffic: 4 N D bytes, S (F d 4 bytes) once per block, from L2; 2 N F d FLOPs per head. ViT-B, N =
//   8161, one layer: 25 MB, 1.6 GFLOP; bound by memory on an H200: 25 MB / 4.3 TB/s = 6 us, by
//   arithmetic.
// Numerics: features and S are rounded to T once; y = sum a S / sum a with the rounded a, in
//   float32, so that weights sum to 1 but for the rounding of S. No row depends on another or on
//   the grid: deterministic. NaN in q makes its row of the head NaN.
// Preconditions: serves() and the alignments, which the launcher has checked; queries >= 1.
// Test: tests/kernels/linear_attention/linear_attention_cuda_test.cpp; twin:
//   linear_attention_reference.h beside it.
//
// Budget: tensor_core_read_out_kernel: 152 registers, 34304 shared bytes, 3 blocks of 128
// Access: tensor_core_read_out_kernel: loads 128, 2 x 32; stores 128; copies 128; products
#pragma once

#include "kernels/linear_attention/tensor_core_features.cuh"

namespace hydrascope::kernels::linear_attention::cuda {

template <class T>
struct ReadOutParams {
  Rows<const T> q;
  Rows<T> y;
  std::int64_t queries;
  std::int64_t blocks;  ///< blocks per head of an image
  std::int64_t tiles_a_block;
  MapParams map;
  bool divides;  ///< by a.z + eps, in maps without exponents
  float eps;
  State state;
};

template <class T, int features>
struct ReadOutShared {
  T sums[features * kWidth];
  T rows[kWarps][2][kWarpRows * kWidth];
  float offsets[features];  ///< M + log z, in powers of two
  float factors[features];  ///< of the rows of S
  T row_sums[2][features];  ///< z as two halves, in maps without exponents
};

/// The values of two columns p, p + 1 of features 8 chunk ...
__device__ __forceinline__ void load_two(const float* values, int chunk, float (&two)[2]) {
  const auto pack = device::load_pack<2>(values + kChunk * chunk + 2 * (device::lane_index() % 4));
  two[0] = pack.values[0];
  two[1] = pack.values[1];
}

/// The largest exponent of rows g and g + 8, in powers of two, with the features' `offsets`.
template <class T, Kind kind>
__device__ __forceinline__ void find_row_max(const MapParams& map, const T* rows,
                                             const float* offsets, const OfRow (&terms)[2],
                                             float (&row_max)[2]) {
  row_max[0] = row_max[1] = -INFINITY;
#pragma unroll 2
  for (int columns = 0; columns < kGroups; ++columns) {
    std::uint32_t words[4];
    load_left(words, rows, 0, columns);
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      float u[2];
      unpack<T>(words[word], u);
      const OfRow& row = terms[word % 2];
#pragma unroll
      for (int half = 0; half < KindTraits<kind>::kHalves; ++half) {
        float offset[2];
        load_two(offsets, half * kRowChunks + 2 * columns + word / 2, offset);
#pragma unroll
        for (int i = 0; i < 2; ++i)
          row_max[word % 2] =
              fmaxf(row_max[word % 2], exponent_in_twos<kind>(map, u[i], half, offset[i],
                                                              half == 0 ? row.first : row.second));
      }
    }
  }
#pragma unroll
  for (float& value : row_max) {
    value = fmaxf(value, device::shuffle_xor(value, 1));
    value = fmaxf(value, device::shuffle_xor(value, 2));
  }
}

/// The map's numbers of rows g and g + 8, each held by four lanes.
template <class T, Kind kind>
__device__ __forceinline__ void find_terms(const MapParams& map, const T* rows, OfRow (&terms)[2]) {
  std::uint32_t words[kGroups][4];
  load_left_rows(words, rows);
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    float u[kWidth / 4];
#pragma unroll
    for (int i = 0; i < kWidth / 8; ++i) {
      float two[2];
      unpack<T>(words[i / 2][i % 2 * 2 + row], two);
      u[2 * i] = two[0];
      u[2 * i + 1] = two[1];
    }
    terms[row] = of_row<4, kind>(map, u, /*query=*/true);
  }
}

template <class T, Kind kind>
__global__ void __launch_bounds__(kThreads, 3)
    tensor_core_read_out_kernel(const ReadOutParams<T> p) {
  using Traits = KindTraits<kind>;
  constexpr bool kExponential = Traits::kExponential;
  constexpr int kFeatures = Traits::kFeatures;
  auto& shared = device::block_shared<ReadOutShared<T, kFeatures>>();
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = device::lane_index();
  const int warp = device::warp_index();
  const int group = lane / 4;
  const int head = static_cast<int>(blockIdx.y);
  const auto blocks = static_cast<unsigned>(p.blocks);
  const std::int64_t image = blockIdx.x / blocks;
  const std::int64_t image_head = image * gridDim.y + head;
  const std::int64_t first_tile = blockIdx.x % blocks * p.tiles_a_block;
  const T* const q_head = head_of(p.q, image, head);
  T* const y_head = head_of(p.y, image, head);
  const auto first_row = [&](std::int64_t tile) {
    return (first_tile + tile) * kTileRows + warp * kWarpRows;
  };

  start_rows<kWarpRows, 32, false>(shared.rows[warp][0], q_head, p.q.stride, first_row(0),
                                   p.queries, lane);
  device::copy_commit();
  HeldSums<kFeatures> held;
  held.load(p.state.data + image_head * kFeatures * kWidth);
  if (thread < kFeatures) {
    const float z = *p.state.z(image_head * kFeatures + thread);
    if constexpr (kExponential) {
      const float key_max = *p.state.maximum(image_head * kFeatures + thread) * kLog2E;
      shared.offsets[thread] = key_max + binary_logarithm(z);
      shared.factors[thread] = z == 0 ? 0.0F : 1 / z;  // 0 for a feature that no key has
    } else {
      shared.factors[thread] = 1;
      shared.row_sums[0][thread] = device::from_float<T>(z);
      shared.row_sums[1][thread] =
          device::from_float<T>(z - device::to_float(shared.row_sums[0][thread]));
    }
  }
  device::block_sync();
  held.put(shared.sums, shared.factors);
  device::block_sync();

  for (std::int64_t tile = 0; tile < p.tiles_a_block && first_row(tile) < p.queries; ++tile) {
    device::copy_wait<0>();
    device::warp_sync();
    T* const rows = shared.rows[warp][tile % 2];
    if (tile + 1 < p.tiles_a_block) {
      start_rows<kWarpRows, 32, false>(shared.rows[warp][(tile + 1) % 2], q_head, p.q.stride,
                                       first_row(tile + 1), p.queries, lane);
      device::copy_commit();
    }
    OfRow terms[2];
    if constexpr (Traits::kMayNeedRow) {
      if (needs_row_of<kind>(p.map)) find_terms<T, kind>(p.map, rows, terms);
    }
    float shifts[2][2] = {};
    float row_max[2] = {};
    if constexpr (kExponential) {
      find_row_max<T, kind>(p.map, rows, shared.offsets, terms, row_max);
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        shifts[row][0] = terms[row].first + row_max[row];
        shifts[row][1] = terms[row].second + row_max[row];
      }
    }

    float y[kRowChunks][4] = {};
    float weight[4] = {};  // sums of a row's features, or a . z by halves of z
#pragma unroll
    for (int half = 0; half < Traits::kHalves; ++half) {
#pragma unroll 2
      for (int columns = 0; columns < kGroups; ++columns) {
        const int chunk = half * kRowChunks + 2 * columns;
        std::uint32_t words[4];
        load_left(words, rows, 0, columns);
        std::uint32_t left[4];
#pragma unroll
        for (int word = 0; word < 4; ++word) {
          float u[2];
          float offset[2] = {};
          unpack<T>(words[word], u);
          if constexpr (kExponential) load_two(shared.offsets, chunk + word / 2, offset);
          float a[2];
#pragma unroll
          for (int i = 0; i < 2; ++i)
            a[i] = feature_of<kind>(p.map, u[i], half, offset[i], shifts[word % 2][half],
                                    terms[word % 2].first);
          left[word] = device::round_pair(a[0], a[1], T{});
        }
#pragma unroll
        for (int to = 0; to < kGroups; ++to) {
          std::uint32_t right[4];
          load_right(right, shared.sums, kChunk * chunk, to);
          multiply_add_both<T>(y[2 * to], y[2 * to + 1], left, right);
        }
        std::uint32_t right[2] = {kOne<T> | kOne<T> << 16, kOne<T> | kOne<T> << 16};
        if constexpr (!kExponential) {
          const T* const z = shared.row_sums[group % 2] + kChunk * chunk + 2 * (lane % 4);
          right[0] = device::load_word<std::uint32_t>(z);
          right[1] = device::load_word<std::uint32_t>(z + kChunk);
        }
        device::multiply_add<T>(weight, left, right);
      }
    }

    float m[2] = {1, 1};
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      if constexpr (kExponential) {
        m[row] = weight[2 * row];
      } else if (p.divides) {
        m[row] = weight[2 * row] + weight[2 * row + 1] + p.eps;
      }
    }
    const float inverse[2] = {1 / m[0], 1 / m[1]};
    device::warp_sync();  // all lanes have taken their words of q, whose place y gets
#pragma unroll
    for (int chunk = 0; chunk < kRowChunks; ++chunk) {
#pragma unroll
      for (int row = 0; row < 2; ++row)
        put_word(rows, row, chunk,
                 device::round_pair(y[chunk][2 * row] * inverse[row],
                                    y[chunk][2 * row + 1] * inverse[row], T{}));
    }
    write_rows(rows, y_head, p.y.stride, first_row(tile), p.queries);
  }
  device::copy_wait<0>();
}

}  // namespace hydrascope::kernels::linear_attention::cuda
