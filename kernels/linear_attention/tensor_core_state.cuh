// Sums over tokens on tensor cores: S = sum b_t v_t^T, z = sum b_t of the keys (linear_attention.h,
// equations there).
// Used by Hedgehog and its family in every layer of 16-bit networks with heads of 64.
//
// Tensors: k and v as Rows, 16-byte aligned, strides multiples of 8; sums (B, H, F, 64), then z, M
//   (B, H, F), float32, of each part.
// Geometry: splits_of parts per image and head (geometry.h), 128 threads. A tile is 64 tokens of k
//   and v, copied in the background while the one before is summed. A warp owns 16 columns of k,
//   which give it 16 or 32 features: their left operands are made in registers from transposed loads
//   of k and never leave them. Exponents are made relative to a running maximum M_f; when it rises,
//   sums are rescaled. combine_kernel (linear_attention.cu) brings the parts to one M.
// Traffic: 4 N D bytes read, 33 KB per part written and read again (F = 128); 2 N F d FLOPs per
//   head. ViT-B, N = 8161, one layer: 25 MB and 8.9 MB, 1.6 GFLOP; bound by memory on an H200:
//   34 MB / 4.3 TB/s = 8 us, by arithmetic.
// Numerics: features, weighted, are rounded to T once; sums are float32, in the order of tiles and
//   parts: deterministic, and the same for an image whatever its batch. z sums the rounded
//   features. NaN in a key makes its feature's z and row of S NaN, M never is.
// Preconditions: serves() and the alignments, which the launcher has checked; N >= 1.
// Test: tests/kernels/linear_attention/linear_attention_cuda_test.cpp; twin:
// linear_attention_reference.h.
//
// Budget: tensor_core_state_kernel: 168 registers, 33280 shared bytes, 3 blocks of 128
// Access: tensor_core_state_kernel: loads none; stores 128, 8 x 32; copies 128; products
#pragma once

#include "kernels/linear_attention/tensor_core_features.cuh"

namespace hydrascope::kernels::linear_attention::cuda {

template <class T>
struct StateParams {
  Rows<const T> k;
  Rows<const T> v;
  std::int64_t tokens;
  std::int64_t tiles;
  int splits;
  MapParams map;
  State sums;                ///< the first part's
  std::int64_t part_stride;  ///< from one part's sums to the next
  device::TokenWeights weights;
  bool weigh_one;  ///< all of them
};

/// The tiles of a block.
template <class T>
struct Part {
  const T* k;  ///< the head's first row
  const T* v;
  std::int64_t image_head;
  std::int64_t split;
  std::int64_t first_tile;
  std::int64_t end_tile;

  __device__ int slot(std::int64_t tile) const { return static_cast<int>((tile - first_tile) % 2); }
};
template <class T>
__device__ __forceinline__ Part<T> part_of_block(const StateParams<T>& p) {
  const int head = static_cast<int>(blockIdx.y);
  const std::int64_t image = blockIdx.x / static_cast<unsigned>(p.splits);
  const std::int64_t split = blockIdx.x % static_cast<unsigned>(p.splits);
  return {head_of(p.k, image, head),  head_of(p.v, image, head),
          image * gridDim.y + head,   split,
          p.tiles * split / p.splits, p.tiles * (split + 1) / p.splits};
}

/// Two tiles of k and v, the one that is summed and the next; numbers of the first's rows.
template <class T>
struct StateShared {
  T k[2][kTileRows * kWidth];
  T v[2][kTileRows * kWidth];
  OfRow rows[kTileRows];
};
/// Starts to copy a tile. Tokens outside repeat the last k, which leaves maxima as they are, and
/// meet zeros.
template <class T>
__device__ __forceinline__ void start_tile(const StateParams<T>& p, const Part<T>& part,
                                           std::int64_t tile, StateShared<T>& shared) {
  const int slot = part.slot(tile);
  const auto thread = static_cast<int>(threadIdx.x);
  const std::int64_t first = tile * kTileRows;
  start_rows<kTileRows, kThreads, true>(shared.k[slot], part.k, p.k.stride, first, p.tokens,
                                        thread);
  start_rows<kTileRows, kThreads, false>(shared.v[slot], part.v, p.v.stride, first, p.tokens,
                                         thread);
}

/// The first of the two tokens of 16 in a step, and of the two columns of 8 in v, that a lane's
/// words hold.
__device__ __forceinline__ int pair_of_lane() { return 2 * (device::lane_index() % 4); }

/// A warp's rows of S: a lane's part of features f = 64 half + 16 warp + lane / 4 + 8 row.
template <Kind kind>
struct FeatureSums {
  static constexpr int kHalves = KindTraits<kind>::kHalves;
  float sums[kHalves][kRowChunks][4] = {};
  float row_sums[kHalves][4] = {};

  /// Index of a feature among the features of all heads.
  static __device__ std::int64_t feature(std::int64_t image_head, int half, int row) {
    return image_head * KindTraits<kind>::kFeatures + kWidth * half + 16 * device::warp_index() +
           device::lane_index() / 4 + 8 * row;
  }
  /// Features of 16 tokens times their v.
  template <class T>
  __device__ __forceinline__ void add(const std::uint32_t (&features)[kHalves][4], const T* v_tile,
                                      int step) {
#pragma unroll
    for (int columns = 0; columns < kGroups; ++columns) {
      std::uint32_t right[4];
      load_right(right, v_tile, 16 * step, columns);
#pragma unroll
      for (int half = 0; half < kHalves; ++half)
        multiply_add_both<T>(sums[half][2 * columns], sums[half][2 * columns + 1], features[half],
                             right);
    }
  }
  /// A collective of the warp. Two neighbouring lanes hold four columns of two rows together; each
  /// lane writes one row.
  __device__ __forceinline__ void store(State& to, std::int64_t image_head) const {
    const int row = device::lane_index() % 2;
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      float* const s =
          to.data + feature(image_head, half, row) * kWidth + device::lane_index() % 4 / 2 * 4;
#pragma unroll
      for (int chunk = 0; chunk < kRowChunks; ++chunk) {
        const float(&own)[4] = sums[half][chunk];
        const float first = device::shuffle_xor(row == 0 ? own[2] : own[0], 1);
        const float second = device::shuffle_xor(row == 0 ? own[3] : own[1], 1);
        device::store_global(s + kChunk * chunk,
                             row == 0 ? device::Pack<float, 4>{{own[0], own[1], first, second}}
                                      : device::Pack<float, 4>{{first, second, own[2], own[3]}});
      }
    }
  }
};

/// Fills `found` of a tile's tokens from their whole rows, two threads per token.
template <Kind kind, class T>
__device__ __forceinline__ void find_rows(const MapParams& map, const T* tile, OfRow* found) {
  const int thread = static_cast<int>(threadIdx.x);
  const int row = thread / 2;
  float u[kWidth / 2];
#pragma unroll
  for (int i = 0; i < kRowChunks / 2; ++i) {
    const auto pack =
        device::load_pack<kChunk>(tile + place(row, thread % 2 * (kRowChunks / 2) + i));
#pragma unroll
    for (int j = 0; j < kChunk; ++j) u[i * kChunk + j] = device::to_float(pack.values[j]);
  }
  const OfRow of = of_row<2, kind>(map, u, /*query=*/false);
  if (thread % 2 == 0) found[row] = of;
}

/// M of a lane's features as far as tokens have come, in powers of two.
template <Kind kind>
struct RunningMaximum {
  using Traits = KindTraits<kind>;
  float values[Traits::kHalves][2];

  /// Takes in a tile, and brings the sums so far to the new maximum.
  template <class T>
  __device__ __forceinline__ void raise(const MapParams& map, const T* k_tile, const OfRow* rows,
                                        FeatureSums<kind>& sums) {
    float raised[Traits::kHalves][2];
#pragma unroll
    for (int half = 0; half < Traits::kHalves; ++half)
      raised[half][0] = raised[half][1] = -INFINITY;
#pragma unroll 2
    for (int step = 0; step < kTileRows / 16; ++step) {
      std::uint32_t words[4];
      load_left_transposed(words, k_tile, 16 * step, device::warp_index());
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        float u[2];
        unpack<T>(words[word], u);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float exponents[2] = {u[i], -u[i]};
          if constexpr (Traits::kShifted) {
            const OfRow& row = rows[16 * step + 8 * (word / 2) + pair_of_lane() + i];
            exponents[0] = exponent_in_twos<kind>(map, u[i], 0, 0.0F, row.first);
            exponents[1] = exponent_in_twos<kind>(map, u[i], 1, 0.0F, row.second);
          }
#pragma unroll
          for (int half = 0; half < Traits::kHalves; ++half)
            raised[half][word % 2] = fmaxf(raised[half][word % 2], exponents[half]);
        }
      }
    }
#pragma unroll
    for (int half = 0; half < Traits::kHalves; ++half) {
      float factor[2];
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        float now = raised[half][row];
        now = fmaxf(now, device::shuffle_xor(now, 1));
        now = fmaxf(now, device::shuffle_xor(now, 2));
        if constexpr (!Traits::kShifted) now *= kLog2E;
        now = fmaxf(now, values[half][row]);
        factor[row] = power_of_two(values[half][row] - now);
        values[half][row] = now;
      }
      if (factor[0] == 1 && factor[1] == 1) continue;  // so it is after the first tiles
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int chunk = 0; chunk < kRowChunks; ++chunk) sums.sums[half][chunk][i] *= factor[i / 2];
        sums.row_sums[half][i] *= factor[i / 2];
      }
    }
  }
};

template <class T, Kind kind>
__global__ void __launch_bounds__(kThreads, 3) tensor_core_state_kernel(const StateParams<T> p) {
  using Traits = KindTraits<kind>;
  constexpr int kHalves = Traits::kHalves;
  auto& shared = device::block_shared<StateShared<T>>();
  const Part<T> part = part_of_block(p);
  const int pair = pair_of_lane();
  const bool by_row = needs_row_of<kind>(p.map);
  FeatureSums<kind> sums;
  RunningMaximum<kind> maximum;
#pragma unroll
  for (int half = 0; half < kHalves; ++half)
    maximum.values[half][0] = maximum.values[half][1] = Traits::kExponential ? -INFINITY : 0.0F;

  start_tile(p, part, part.first_tile, shared);
  device::copy_commit();
  for (std::int64_t tile = part.first_tile; tile < part.end_tile; ++tile) {
    device::copy_wait<0>();
    device::block_sync();  // the tile is there, and all have done with the one before
    if (tile + 1 < part.end_tile) {
      start_tile(p, part, tile + 1, shared);
      device::copy_commit();
    }
    const T* const k_tile = shared.k[part.slot(tile)];
    const T* const v_tile = shared.v[part.slot(tile)];
    if constexpr (Traits::kMayNeedRow) {
      if (by_row) {
        find_rows<kind>(p.map, k_tile, shared.rows);
        device::block_sync();
      }
    }
    if constexpr (Traits::kExponential) maximum.raise(p.map, k_tile, shared.rows, sums);
    const std::int64_t first = tile * kTileRows;
    const std::int64_t left = p.tokens - first;
    const int count = left < kTileRows ? static_cast<int>(left) : kTileRows;

#pragma unroll 2
    for (int step = 0; step < kTileRows / 16; ++step) {
      std::uint32_t words[4];
      load_left_transposed(words, k_tile, 16 * step, device::warp_index());
      OfRow rows[4] = {};  // of tokens 16 step + pair + 0, 1, 8, 9
      if (Traits::kMayNeedRow && by_row) {
#pragma unroll
        for (int i = 0; i < 4; ++i) rows[i] = shared.rows[16 * step + pair + i / 2 * 8 + i % 2];
      }
      std::uint32_t features[kHalves][4];
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        float b[4][2];
#pragma unroll
        for (int word = 0; word < 4; ++word) {
          float u[2];
          unpack<T>(words[word], u);
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const OfRow& row = rows[word / 2 * 2 + i];
            b[word][i] = feature_of<kind>(p.map, u[i], half, -maximum.values[half][word % 2],
                                          half == 0 ? row.first : row.second, row.first);
          }
        }
        if (!p.weigh_one) {
#pragma unroll
          for (int word = 0; word < 4; ++word) {
#pragma unroll
            for (int i = 0; i < 2; ++i)
              b[word][i] *= p.weights.of(first + 16 * step + word / 2 * 8 + pair + i);
          }
        }
#pragma unroll
        for (int word = 0; word < 4; ++word)
          features[half][word] = device::round_pair(b[word][0], b[word][1], T{});
      }
      sums.add(features, v_tile, step);
      // One more product, its right columns all ones.
      std::uint32_t right[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int token = 16 * step + 8 * i + pair;
        right[i] = (token < count ? kOne<T> : 0U) | (token + 1 < count ? kOne<T> << 16 : 0U);
      }
#pragma unroll
      for (int half = 0; half < kHalves; ++half)
        device::multiply_add<T>(sums.row_sums[half], features[half], right);
    }
  }

  State to = p.sums;
  to.data += part.split * p.part_stride;
  sums.store(to, part.image_head);
  if (pair != 0) return;
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const std::int64_t f = sums.feature(part.image_head, half, row);
      *to.z(f) = sums.row_sums[half][2 * row];
      *to.maximum(f) = maximum.values[half][row] * kLn2;
    }
  }
}

}  // namespace hydrascope::kernels::linear_attention::cuda
