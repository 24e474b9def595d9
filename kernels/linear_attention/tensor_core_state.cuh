// Sums over tokens on tensor cores: S = sum b_t v_t^T, z = sum b_t of the keys (linear_attention.h,
// equations there), and for the backward pass dS = sum a_i g_i^T, dz = - sum a_i (g_i . y_i) of the
// queries, a_i being divided by m_i.
// Used by Hedgehog and its family in every layer of 16-bit networks with heads of 64.
//
// Tensors: u (k or q) and x (v or grad_y) as Rows, 16-byte aligned, strides multiples of 8; sums
//   (B, H, F, 64), then z, M (B, H, F), float32, of each part.
// Geometry: splits_of parts per image and head (geometry.h), 128 threads. A tile is 64
//   tokens of u and x, copied in the background while the one before is summed. A warp owns 16
//   columns of u, which give it 16 or 32 features: their left operands are made in registers from
//   transposed loads of u and never leave them. Exponents are made relative to a running maximum
//   M_f; when it rises, sums are rescaled. state.cu brings the parts to one M.
// Traffic: 4 N D bytes read, 33 KB per part written and read again (F = 128); 2 N F d FLOPs per
//   head. ViT-B, N = 8161, one layer: 25 MB and 8.9 MB, 1.6 GFLOP; bound by memory on an H200
//   (estimated: 6 us at 4.3 TB/s).
// Numerics: features, weighted, are rounded to T once; sums are float32, in the order of tiles and
//   parts: deterministic, and the same for an image whatever its batch. z sums the rounded
//   features. Of queries, features a_f z_f / m sum to 1; g . y enters as two halves in T (2^-17).
//   NaN in a key makes its feature's z and row of S NaN, M never is.
// Preconditions: serves() and the alignments, which the launcher has checked; N >= 1.
// Test: tests/kernels/linear_attention/tensor_core_cuda_test.cpp; twin:
// linear_attention_reference.h.
//
// Budget: tensor_core_state_kernel: 168 registers, 34816 shared bytes
#pragma once

#include "kernels/linear_attention/tensor_core_features.cuh"

namespace hydrascope::kernels::linear_attention::cuda::tensor_core {

/// What the sums over queries take of a query: its exponents' shifts, 1 / m in them, and g . y.
/// Maps without exponents have 1 / m in `first` and `unit`'s inverse norm in `second`.
struct alignas(16) Term {
  float first;
  float second;
  float product;
  float unused;
};

template <class T>
struct StateParams {
  Rows<const T> u;
  Rows<const T> x;
  std::int64_t tokens;
  std::int64_t tiles;
  int splits;
  MapParams map;
  device::TokenWeights weights;  ///< of keys
  bool weigh_one;                ///< all of them
  const Term* terms;             ///< of queries (B, H, tokens)
  State state;                   ///< of the keys, where queries are summed
  State sums;                    ///< of the first split
  std::int64_t run_stride;       ///< from there to the next
};

template <class T>
struct StateShared {
  T u[2][kTileRows * kWidth];
  T x[2][kTileRows * kWidth];
  Term terms[2][kTileRows];
};

/// Fills terms[0] of a tile's tokens from their whole rows, two threads per token.
template <Kind kind, class T>
__device__ __forceinline__ void find_row_terms(const MapParams& map, const T* tile, Term* terms) {
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
  const OfRow found = of_row<2, kind>(map, u, false);
  if (thread % 2 == 0) terms[row] = {found.first, found.second, 0, 0};
}

/// Keys, or with `queries` the sums of the backward pass.
template <class T, Kind kind, bool queries>
__global__ void __launch_bounds__(kThreads, 3) tensor_core_state_kernel(const StateParams<T> p) {
  using Traits = KindTraits<kind>;
  constexpr bool kExponential = Traits::kExponential;
  constexpr int kHalves = Traits::kHalves;
  auto& shared = device::block_shared<StateShared<T>>();
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = device::lane_index();
  const int warp = device::warp_index();
  const int group = lane / 4;
  const int pair = 2 * (lane % 4);
  const int head = static_cast<int>(blockIdx.y);
  const std::int64_t image = blockIdx.x / static_cast<unsigned>(p.splits);
  const std::int64_t split = blockIdx.x % static_cast<unsigned>(p.splits);
  const std::int64_t image_head = image * gridDim.y + head;
  const std::int64_t first_tile = p.tiles * split / p.splits;
  const std::int64_t end_tile = p.tiles * (split + 1) / p.splits;
  const T* const u_head = head_of(p.u, image, head);
  const T* const x_head = head_of(p.x, image, head);
  const Term* const terms = queries ? p.terms + image_head * p.tokens : nullptr;

  // The sums of features f = 64 half + 16 warp + group + 8 row.
  const int feature = 16 * warp + group;
  float sums[kHalves][kRowChunks][4] = {};
  float row_sums[kHalves][4] = {};
  float running_max[kHalves][2];
  float offset[kHalves][2] = {};
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      running_max[half][row] = -INFINITY;
      if constexpr (queries && kExponential) {
        const std::int64_t f = image_head * Traits::kFeatures + kWidth * half + feature + 8 * row;
        offset[half][row] = fmaf(*p.state.maximum(f), kLog2E, binary_logarithm(*p.state.z(f)));
      }
    }
  }

  const auto start_tile = [&](std::int64_t tile) {
    const auto slot = static_cast<int>((tile - first_tile) % 2);
    const std::int64_t first = tile * kTileRows;
    // Tokens outside repeat the last one, which leaves maxima as they are, and meet zeros.
    start_rows<kTileRows, kThreads, true>(shared.u[slot], u_head, p.u.stride, first, p.tokens,
                                          thread);
    start_rows<kTileRows, kThreads, false>(shared.x[slot], x_head, p.x.stride, first, p.tokens,
                                           thread);
    if constexpr (queries) {
      if (thread < kTileRows) {
        const std::int64_t token = first + thread;
        device::copy_async(&shared.terms[slot][thread],
                           terms + (token < p.tokens ? token : p.tokens - 1), true);
      }
    }
    device::copy_commit();
  };

  start_tile(first_tile);
  for (std::int64_t tile = first_tile; tile < end_tile; ++tile) {
    const auto slot = static_cast<int>((tile - first_tile) % 2);
    device::copy_wait<0>();
    device::block_sync();  // the tile is there, and all have done with the one before
    if (tile + 1 < end_tile) start_tile(tile + 1);
    const T* const u_tile = shared.u[slot];
    const T* const x_tile = shared.x[slot];
    const bool by_row = needs_row_of<kind>(p.map);
    if constexpr (!queries && Traits::kMayNeedRow) {
      if (by_row) {
        find_row_terms<kind>(p.map, u_tile, shared.terms[0]);
        device::block_sync();
      }
    }
    const Term* const tile_terms = shared.terms[queries ? slot : 0];
    const std::int64_t first = tile * kTileRows;
    const std::int64_t left = p.tokens - first;
    const int count = left < kTileRows ? static_cast<int>(left) : kTileRows;

    if constexpr (!queries && kExponential) {
      float raised[kHalves][2];
#pragma unroll
      for (int half = 0; half < kHalves; ++half) raised[half][0] = raised[half][1] = -INFINITY;
#pragma unroll 2
      for (int step = 0; step < kTileRows / 16; ++step) {
        std::uint32_t words[4];
        load_left_transposed(words, u_tile, 16 * step, warp);
#pragma unroll
        for (int word = 0; word < 4; ++word) {
          float u[2];
          unpack<T>(words[word], u);
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            if constexpr (Traits::kShifted) {
              const Term& term = tile_terms[16 * step + 8 * (word / 2) + pair + i];
              raised[0][word % 2] = fmaxf(raised[0][word % 2],
                                          exponent_in_twos<kind>(p.map, u[i], 0, 0.0F, term.first));
              raised[1][word % 2] = fmaxf(
                  raised[1][word % 2], exponent_in_twos<kind>(p.map, u[i], 1, 0.0F, term.second));
            } else {
              raised[0][word % 2] = fmaxf(raised[0][word % 2], u[i]);
              if constexpr (kHalves == 2) raised[1][word % 2] = fmaxf(raised[1][word % 2], -u[i]);
            }
          }
        }
      }
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        float factor[2];
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          float now = raised[half][row];
          now = fmaxf(now, device::shuffle_xor(now, 1));
          now = fmaxf(now, device::shuffle_xor(now, 2));
          if constexpr (!Traits::kShifted) now *= kLog2E;
          now = fmaxf(now, running_max[half][row]);
          factor[row] = power_of_two(running_max[half][row] - now);
          running_max[half][row] = now;
          offset[half][row] = -now;
        }
        if (factor[0] != 1 || factor[1] != 1) {  // rare after the first tiles
#pragma unroll
          for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int chunk = 0; chunk < kRowChunks; ++chunk) sums[half][chunk][i] *= factor[i / 2];
            row_sums[half][i] *= factor[i / 2];
          }
        }
      }
    }

#pragma unroll(queries ? 1 : 2)
    for (int step = 0; step < kTileRows / 16; ++step) {
      std::uint32_t words[4];
      load_left_transposed(words, u_tile, 16 * step, warp);
      // The terms of tokens 16 step + pair + 0, 1, 8, 9.
      Term term[4] = {};
      if (queries || (Traits::kMayNeedRow && by_row)) {
#pragma unroll
        for (int i = 0; i < 4; ++i) term[i] = tile_terms[16 * step + pair + i / 2 * 8 + i % 2];
      }
      std::uint32_t left_words[kHalves][4];
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        float b[4][2];
#pragma unroll
        for (int word = 0; word < 4; ++word) {
          float u[2];
          unpack<T>(words[word], u);
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const Term& of_token = term[word / 2 * 2 + i];
            float value =
                feature_of<kind>(p.map, u[i], half, offset[half][word % 2],
                                 half == 0 ? of_token.first : of_token.second, of_token.second);
            if constexpr (queries && !kExponential) value *= of_token.first;
            b[word][i] = value;
          }
        }
        if constexpr (!queries) {
          if (!p.weigh_one) {
#pragma unroll
            for (int word = 0; word < 4; ++word) {
#pragma unroll
              for (int i = 0; i < 2; ++i)
                b[word][i] *= p.weights.of(first + 16 * step + word / 2 * 8 + pair + i);
            }
          }
        }
#pragma unroll
        for (int word = 0; word < 4; ++word)
          left_words[half][word] = device::round_pair(b[word][0], b[word][1], T{});
      }
#pragma unroll
      for (int columns = 0; columns < kGroups; ++columns) {
        std::uint32_t right[4];
        load_right(right, x_tile, 16 * step, columns);
#pragma unroll
        for (int half = 0; half < kHalves; ++half)
          multiply_add_both<T>(sums[half][2 * columns], sums[half][2 * columns + 1],
                               left_words[half], right);
      }
      if constexpr (queries) {
        // In float32, whose range g . y may need.
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
#pragma unroll
          for (int word = 0; word < 4; ++word) {
            float rounded[2];
            unpack<T>(left_words[half][word], rounded);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              const bool inside = 16 * step + word / 2 * 8 + pair + i < count;
              const float product = inside ? term[word / 2 * 2 + i].product : 0.0F;
              float& sum = row_sums[half][word % 2 * 2];
              sum = fmaf(rounded[i], -product, sum);
            }
          }
        }
      } else {
        // One more product, its right columns all ones.
        std::uint32_t right[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int token = 16 * step + 8 * i + pair;
          right[i] = (token < count ? kOne<T> : 0U) | (token + 1 < count ? kOne<T> << 16 : 0U);
        }
#pragma unroll
        for (int half = 0; half < kHalves; ++half)
          device::multiply_add<T>(row_sums[half], left_words[half], right);
      }
    }
  }

  State to = p.sums;
  to.data += split * p.run_stride;
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const std::int64_t f = image_head * Traits::kFeatures + kWidth * half + feature + 8 * row;
#pragma unroll
      for (int chunk = 0; chunk < kRowChunks; ++chunk) {
        device::Pack<float, 2> values;
        values.values[0] = sums[half][chunk][2 * row];
        values.values[1] = sums[half][chunk][2 * row + 1];
        device::store_pack(to.data + f * kWidth + kChunk * chunk + pair, values);
      }
      float row_sum = row_sums[half][2 * row];
      if constexpr (queries) row_sum = device::warp_reduce<4>(row_sum, device::Sum());
      if (pair == 0) {
        *to.z(f) = row_sum;
        if constexpr (!queries)
          *to.maximum(f) = kExponential ? running_max[half][row] * kLn2 : 0.0F;
      }
    }
  }
}

}  // namespace hydrascope::kernels::linear_attention::cuda::tensor_core
