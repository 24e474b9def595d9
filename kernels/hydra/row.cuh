// A token's row in a warp's registers, its norm, and the derivative through the norm: what Hydra's
// kernels and its map share.
#pragma once

#include "kernels/device/block.cuh"
#include "kernels/device/rows.cuh"
#include "kernels/device/vector_io.cuh"
#include "kernels/hydra/hydra.h"
#include "kernels/hydra/hydra_cuda.h"

#include <cstdint>

namespace hydrascope::kernels::hydra::cuda {

using device::in_packs;
using device::load_floats;
using device::row_of;

struct NormRule {
  Norm norm;
  Eps eps_rule;
  float eps;
};

/// What a lane holds of a row: packs of 16 bytes, neighbouring lanes holding neighbouring packs.
template <class T, int packs>
struct RowShare {
  device::PackedWords<T> pack[packs];
};
/// Index of the first value of a lane's pack.
template <class T>
__device__ __forceinline__ int pack_start(int pack) {
  return (pack * device::kWarpSize + device::lane_index()) * device::kPackSize<T>;
}

/// Zeros after the row, and in place of a row that is not `inside`.
template <int packs, class T>
__device__ __forceinline__ RowShare<T, packs> load_row(const T* row, int dim, bool inside) {
  RowShare<T, packs> share;
#pragma unroll
  for (int pack = 0; pack < packs; ++pack) {
    const int at = pack_start<T>(pack);
    if (inside && at < dim) {
      share.pack[pack] = device::load_words(row + at);
    } else {
      share.pack[pack] = {};
    }
  }
  return share;
}

/// One value's part of sum x_f^2 or sum |x_f|.
__device__ __forceinline__ float add_to_norm(float x, Norm norm, float sum) {
  return norm == Norm::l2 ? fmaf(x, x, sum) : sum + fabsf(x);
}
/// A lane's part of it. The row is read again afterwards, and until then takes 16 bytes per pack.
template <class T, int packs>
__device__ __forceinline__ float norm_share(RowShare<T, packs>& x, Norm norm) {
  float sum = 0;
  if (norm == Norm::none) return sum;
#pragma unroll
  for (int pack = 0; pack < packs; ++pack) {
#pragma unroll
    for (int i = 0; i < device::kPackSize<T>; ++i)
      sum = add_to_norm(device::value_of(x.pack[pack], i), norm, sum);
    device::forget_values(x.pack[pack]);
  }
  return sum;
}

/// The sum of a whole row in memory, a value at a time.
template <class T>
__device__ __forceinline__ float norm_of_row(const T* x, int dim, Norm norm) {
  float sum = 0;
  for (int f = device::lane_index(); f < dim; f += device::kWarpSize)
    sum = add_to_norm(device::to_float(x[f]), norm, sum);
  return device::warp_reduce(sum, device::Sum{});
}

/// |x| from the sum over the row.
__device__ __forceinline__ float length_of(float sum, const NormRule& rule) {
  return rule.norm == Norm::l2 ? sqrtf(sum) : sum;
}
/// 1 / r; NaN stays NaN.
__device__ __forceinline__ float inverse_norm(float sum, const NormRule& rule) {
  if (rule.norm == Norm::none) return 1.0F;
  const float length = length_of(sum, rule);
  switch (rule.eps_rule) {
    case Eps::max: return 1.0F / (length < rule.eps ? rule.eps : length);
    case Eps::rsqrt:
      return 1.0F / sqrtf((rule.norm == Norm::l2 ? sum : sum * sum) + rule.eps * rule.eps);
    case Eps::add: return 1.0F / (length + rule.eps);
  }
  return 1.0F;
}

/// The derivative of xh = x / r(x) in one row, of a gradient dxh:
///   dx = (dxh - r' (xh . dxh) d|x|/dx) / r,  d|x|/dx = x / |x| (l2) or sign x (l1),
/// r' = dr/d|x|; 0 where |x| < eps, as the modules have it: 1 / eps would be a spike of a million.
struct NormGradient {
  float inverse;  ///< 1 / r
  float pull;     ///< of x (l2) or of its sign (l1)
  bool constant;  ///< dx = 0
  bool by_sign;

  __device__ __forceinline__ float operator()(float x, float dxh) const {
    const float sign = x > 0 ? 1.0F : (x < 0 ? -1.0F : 0.0F);
    return constant ? 0.0F : inverse * (dxh - pull * (by_sign ? sign : x));
  }
};
/// `along` = x . dxh.
__device__ __forceinline__ NormGradient norm_gradient(float sum, float along,
                                                      const NormRule& rule) {
  if (rule.norm == Norm::none) return {1.0F, 0.0F, false, false};
  const float length = length_of(sum, rule);
  const float inverse = inverse_norm(sum, rule);
  float slope = 1;
  if (rule.eps_rule == Eps::rsqrt) slope = length * inverse;
  float pull = along * inverse * slope;
  // Below eps, where `max` has no slope, and at a zero row the gradient is zero as a whole. Asked
  // this way round a NaN stays.
  if (rule.norm == Norm::l2) pull = length <= 0 ? 0.0F : pull / length;
  return {inverse, pull, length < rule.eps, rule.norm == Norm::l1};
}

/// NormGradients of a warp's rows, with dxh = given * by; `by` (dim) is the same for all.
template <int rows, int packs, class T>
__device__ __forceinline__ void gradients_of_rows(RowShare<T, packs> (&x)[rows],
                                                  RowShare<T, packs> (&given)[rows],
                                                  const float* by, int dim, const NormRule& rule,
                                                  NormGradient (&gradients)[rows]) {
  constexpr int kWidth = device::kPackSize<T>;
  float norms[rows] = {};
  float along[rows] = {};
#pragma unroll
  for (int pack = 0; pack < packs; ++pack) {
    const int at = pack_start<T>(pack);
    float factors[kWidth] = {};
    if (at < dim) load_floats(by + at, factors);
#pragma unroll
    for (int r = 0; r < rows; ++r) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float value = device::value_of(x[r].pack[pack], i);
        norms[r] = add_to_norm(value, rule.norm, norms[r]);
        along[r] = fmaf(value * factors[i], device::value_of(given[r].pack[pack], i), along[r]);
      }
      device::forget_values(x[r].pack[pack]);
      device::forget_values(given[r].pack[pack]);
    }
  }
#pragma unroll
  for (int r = 0; r < rows; ++r)
    gradients[r] = norm_gradient(device::warp_reduce(norms[r], device::Sum{}),
                                 device::warp_reduce(along[r], device::Sum{}), rule);
}

/// The same of one row in memory, a value at a time.
template <class T>
__device__ __forceinline__ NormGradient gradient_of_row(const T* x, const T* given, const float* by,
                                                        int dim, const NormRule& rule) {
  float norm = 0;
  float along = 0;
  for (int f = device::lane_index(); f < dim; f += device::kWarpSize) {
    const float value = device::to_float(x[f]);
    norm = add_to_norm(value, rule.norm, norm);
    along = fmaf(value * by[f], device::to_float(given[f]), along);
  }
  return norm_gradient(device::warp_reduce(norm, device::Sum{}),
                       device::warp_reduce(along, device::Sum{}), rule);
}

}  // namespace hydrascope::kernels::hydra::cuda
