// The backward pass's sums over queries of linear attention on tensor cores (equations in
// tensor_core_backward.cuh): dS = sum a_i g_i^T, dz = - sum a_i (g_i . y_i), a_i divided by m_i.
//
// Tensors: u (q) and x (grad_y) as Rows as in tensor_core_state.cuh; terms (B, H, N), which the
//   gradient of queries has left; state of the forward pass; sums (B, H, F, 64), then z (B, H, F)
//   of each part.
// Geometry, traffic: as tensor_core_state.cuh, and 16 N H bytes of terms.
// Numerics: a is rounded to T once; g . y stays in float32, whose range it may need, and meets the
//   rounded a. Features a_f z_f / m sum to 1. Deterministic as the forward pass.
// Preconditions, test, twin: as tensor_core_backward.cuh.
//
// Budget: tensor_core_query_sums_kernel: 168 registers, 34816 shared bytes, 3 blocks of 128
// Access: tensor_core_query_sums_kernel: loads 8 x 32; stores 128, 4 x 32; copies 128; products
#pragma once

#include "kernels/linear_attention/tensor_core_state.cuh"

namespace hydrascope::kernels::linear_attention::cuda::tensor_core {

/// A query's numbers in the sums over queries: its exponents' shifts, 1 / m in them, and g . y.
/// Maps without exponents have 1 / m in `first` and `unit`'s inverse norm in `second`.
struct alignas(16) Term {
  float first;
  float second;
  float product;
  float unused;
};

struct QuerySumsParams {
  TokenSums<BFloat16> queries;
  const Term* terms;  ///< (B, H, tokens)
  State state;        ///< the keys'
};

struct QuerySumsShared {
  Tiles<BFloat16> tiles;
  Term terms[2][kTileRows];
};

template <Kind kind>
__global__ void __launch_bounds__(kThreads, 3)
    tensor_core_query_sums_kernel(const QuerySumsParams p) {
  using Traits = KindTraits<kind>;
  constexpr int kHalves = Traits::kHalves;
  auto& shared = device::block_shared<QuerySumsShared>();
  const TokenSums<BFloat16>& all = p.queries;
  const Part<BFloat16> part = part_of_block(all);
  const int pair = pair_of_lane();
  FeatureSums<kind> sums;
  float offset[kHalves][2] = {};
  if constexpr (Traits::kExponential) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const std::int64_t f = sums.feature(part.image_head, half, row);
        offset[half][row] = fmaf(*p.state.maximum(f), kLog2E, binary_logarithm(*p.state.z(f)));
      }
    }
  }

  const auto start = [&](std::int64_t tile) {
    start_tile(all, part, tile, shared.tiles);
    if (threadIdx.x < kTileRows) {
      const std::int64_t token = tile * kTileRows + threadIdx.x;
      device::copy_async(
          &shared.terms[part.slot(tile)][threadIdx.x],
          p.terms + part.image_head * all.tokens + (token < all.tokens ? token : all.tokens - 1),
          true);
    }
    device::copy_commit();
  };
  start(part.first_tile);
  for (std::int64_t tile = part.first_tile; tile < part.end_tile; ++tile) {
    device::copy_wait<0>();
    device::block_sync();  // the tile is there, and all have done with the one before
    if (tile + 1 < part.end_tile) start(tile + 1);
    const int slot = part.slot(tile);
    const std::int64_t left = all.tokens - tile * kTileRows;
    const int count = left < kTileRows ? static_cast<int>(left) : kTileRows;

#pragma unroll 1
    for (int step = 0; step < kTileRows / 16; ++step) {
      std::uint32_t words[4];
      load_left_transposed(words, shared.tiles.u[slot], 16 * step, device::warp_index());
      Term term[4];  // of tokens 16 step + pair + 0, 1, 8, 9
#pragma unroll
      for (int i = 0; i < 4; ++i)
        term[i] = shared.terms[slot][16 * step + pair + i / 2 * 8 + i % 2];
      std::uint32_t features[kHalves][4];
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
#pragma unroll
        for (int word = 0; word < 4; ++word) {
          float u[2];
          unpack<BFloat16>(words[word], u);
          float a[2];
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const Term& of = term[word / 2 * 2 + i];
            a[i] = feature_of<kind>(all.map, u[i], half, offset[half][word % 2],
                                    half == 0 ? of.first : of.second, of.second);
            if constexpr (!Traits::kExponential) a[i] *= of.first;
          }
          features[half][word] = device::round_pair(a[0], a[1], BFloat16{});
        }
      }
      sums.add(features, shared.tiles.x[slot], step);
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
#pragma unroll
        for (int word = 0; word < 4; ++word) {
          float rounded[2];
          unpack<BFloat16>(features[half][word], rounded);
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const bool inside = 16 * step + word / 2 * 8 + pair + i < count;
            const float product = inside ? term[word / 2 * 2 + i].product : 0.0F;
            float& sum = sums.row_sums[half][word % 2 * 2];
            sum = fmaf(rounded[i], -product, sum);
          }
        }
      }
    }
  }

  State to = all.sums;
  to.data += part.split * all.run_stride;
  sums.store(to, part.image_head);
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float sum = device::warp_reduce<4>(sums.row_sums[half][2 * row], device::Sum());
      if (pair == 0) *to.z(sums.feature(part.image_head, half, row)) = sum;
    }
  }
}

}  // namespace hydrascope::kernels::linear_attention::cuda::tensor_core
