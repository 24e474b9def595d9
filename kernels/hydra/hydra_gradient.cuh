// Hydra attention on a GPU, the second half of the backward pass: grad_k and grad_v from k, v and
// dc (hydra_cuda.h has the equations, hydra.cuh the first half).
//
// key_gradient_kernel, key_gradient_any_kernel: grid images * ceil(N / 32), block 256, one warp per
//   row (or rows_in_flight of them) at a time; no row knows of another. dc comes from L1, twice:
//   with k and v there are no registers for it, and L1 should be a fifth busy (an estimate, from
//   bytes).
//
// Budget: key_gradient_kernel: 128 registers, 0 shared bytes
// Budget: key_gradient_any_kernel: 64 registers, 0 shared bytes
#pragma once

#include "kernels/hydra/hydra_geometry.h"
#include "kernels/hydra/row.cuh"

namespace hydrascope::kernels::hydra::cuda {

template <class T>
struct KeyGradientArguments {
  Rows<const T> k;
  Rows<const T> v;
  Rows<T> grad_k;
  Rows<T> grad_v;
  const float* dc;  ///< (B, D)
  std::int64_t tokens;
  std::int64_t num_prefix;
  float prefix_weight;
  float patch_weight;
  NormRule rule;
  int dim;
  int blocks_of_image;
};

template <class T>
__device__ __forceinline__ float token_weight(const KeyGradientArguments<T>& p,
                                              std::int64_t token) {
  return token < p.num_prefix ? p.prefix_weight : p.patch_weight;
}

template <class T, int packs>
__global__ void __launch_bounds__(kThreads, 2)
    key_gradient_kernel(const KeyGradientArguments<T> p) {
  constexpr int kWidth = device::kPackSize<T>;
  constexpr int kRows = rows_in_flight(packs);
  const std::int64_t image = blockIdx.x / static_cast<unsigned>(p.blocks_of_image);
  const std::int64_t begin = blockIdx.x % static_cast<unsigned>(p.blocks_of_image) * kRowsOfBlock;
  const std::int64_t left = p.tokens - begin;
  const int rows = static_cast<int>(left < kRowsOfBlock ? left : kRowsOfBlock);
  const float* dc = p.dc + image * p.dim;

  for (int first = device::warp_index() * kRows; first < rows; first += kWarps * kRows) {
    RowShare<T, packs> k[kRows];
    RowShare<T, packs> v[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const bool inside = first + r < rows;
      k[r] = load_row<packs>(row_of(p.k, image, begin + first + r), p.dim, inside);
      v[r] = load_row<packs>(row_of(p.v, image, begin + first + r), p.dim, inside);
    }
    NormGradient derived[kRows];
    float weight[kRows];
    gradients_of_rows(k, v, dc, p.dim, p.rule, derived);
#pragma unroll
    for (int r = 0; r < kRows; ++r) weight[r] = token_weight(p, begin + first + r);
#pragma unroll
    for (int pack = 0; pack < packs; ++pack) {
      const int at = pack_start<T>(pack);
      if (at >= p.dim) continue;
      float of_c[kWidth];
      load_floats(dc + at, of_c);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (first + r >= rows) continue;
        float of_k[kWidth];
        float of_v[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          const float key = device::value_of(k[r].pack[pack], i);
          of_k[i] = weight[r] * derived[r](key, device::value_of(v[r].pack[pack], i) * of_c[i]);
          of_v[i] = weight[r] * (key * derived[r].inverse) * of_c[i];
        }
        device::store_pack(row_of(p.grad_k, image, begin + first + r) + at,
                           device::from_floats<T>(of_k));
        device::store_pack(row_of(p.grad_v, image, begin + first + r) + at,
                           device::from_floats<T>(of_v));
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    key_gradient_any_kernel(const KeyGradientArguments<T> p) {
  const std::int64_t image = blockIdx.x / static_cast<unsigned>(p.blocks_of_image);
  const std::int64_t begin = blockIdx.x % static_cast<unsigned>(p.blocks_of_image) * kRowsOfBlock;
  const std::int64_t left = p.tokens - begin;
  const int rows = static_cast<int>(left < kRowsOfBlock ? left : kRowsOfBlock);
  const float* dc = p.dc + image * p.dim;
  for (int r = device::warp_index(); r < rows; r += kWarps) {
    const T* k = row_of(p.k, image, begin + r);
    const T* v = row_of(p.v, image, begin + r);
    T* grad_k = row_of(p.grad_k, image, begin + r);
    T* grad_v = row_of(p.grad_v, image, begin + r);
    const float weight = token_weight(p, begin + r);
    const NormGradient derived = gradient_of_row(k, v, dc, p.dim, p.rule);
    for (int f = device::lane_index(); f < p.dim; f += device::kWarpSize) {
      const float key = device::to_float(k[f]);
      grad_k[f] = device::from_float<T>(weight * derived(key, device::to_float(v[f]) * dc[f]));
      grad_v[f] = device::from_float<T>(weight * (key * derived.inverse) * dc[f]);
    }
  }
}

}  // namespace hydrascope::kernels::hydra::cuda
