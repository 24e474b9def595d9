// Hydra attention on a GPU, backward (hydra_cuda.h has the equations, hydra.cuh the parts shared
// with the forward pass): from q and grad_y the sum that becomes dc and, as both are in registers,
// grad_q; then grad_k and grad_v from k, v and dc.
//
// query_gradient_kernel: laid out and summed as project_kernel. With 6 packs per lane the sums,
//   both rows and the gradient need more registers than two blocks per multiprocessor leave; one
//   block has 48 KB on their way.
// key_gradient_kernel: grid images * ceil(N / 32), block 256, one row (or rows_in_flight rows) per
//   warp at a time; rows are independent. dc comes from L1, twice: beside k and v there are no
//   registers for it, and L1 should be a fifth busy (an estimate, from bytes).
//
// Budget: query_gradient_kernel: 255 registers, 8448 shared bytes, 1 block of 256
// Access: query_gradient_kernel: loads 128, 102 x 32; stores 128, 15 x 32; fences
// Budget: key_gradient_kernel: 128 registers, 0 shared bytes, 2 blocks of 256
// Access: key_gradient_kernel: loads 128; stores 128
#pragma once

#include "kernels/hydra/hydra.cuh"

namespace hydrascope::kernels::hydra::cuda {

// ---- the derivative through the norm ------------------------------------------------------------

/// The gradient of x for a gradient dxh of xh = x / r(x) in one row:
///   dx = (dxh - (xh . dxh) d|x|/dx) / r,  d|x|/dx = x / |x| (l2) or sign x (l1);
/// 0 if |x| < eps, as in the modules: 1 / eps would be a spike of a million.
struct NormGradient {
  float inverse;     ///< 1 / r
  float correction;  ///< times x (l2) or its sign (l1)
  bool constant;     ///< dx = 0
  bool by_sign;

  __device__ __forceinline__ float operator()(float x, float dxh) const {
    const float sign = x > 0 ? 1.0F : (x < 0 ? -1.0F : 0.0F);
    return constant ? 0.0F : inverse * (dxh - correction * (by_sign ? sign : x));
  }
};
/// From a lane's parts of the norm's sum and of x . dxh. A collective of the warp.
__device__ __forceinline__ NormGradient norm_gradient(float norm, float product,
                                                      const NormRule& rule) {
  const float sum = device::warp_reduce(norm, device::Sum{});
  product = device::warp_reduce(product, device::Sum{});
  if (rule.norm == Norm::none) return {1.0F, 0.0F, false, false};
  const float length = length_of(sum, rule);
  const float inverse = inverse_norm(sum, rule);
  float correction = product * inverse;
  // Below eps and at a zero row the gradient is zero as a whole. This comparison lets a NaN pass.
  if (rule.norm == Norm::l2) correction = length <= 0 ? 0.0F : correction / length;
  return {inverse, correction, length < rule.eps, rule.norm == Norm::l1};
}

/// `NormGradient` of a warp's rows, with dxh = y * by; `by` (dim) is the same for all.
template <int rows, int packs, class T>
__device__ __forceinline__ void gradients_of_rows(RowShare<T, packs> (&x)[rows],
                                                  RowShare<T, packs> (&y)[rows], const float* by,
                                                  int dim, const NormRule& rule,
                                                  NormGradient (&gradients)[rows]) {
  constexpr int kWidth = device::kPackSize<T>;
  float norms[rows] = {};
  float products[rows] = {};
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
        products[r] = fmaf(value * factors[i], device::value_of(y[r].pack[pack], i), products[r]);
      }
      device::forget_values(x[r].pack[pack]);
      device::forget_values(y[r].pack[pack]);
    }
  }
#pragma unroll
  for (int r = 0; r < rows; ++r) gradients[r] = norm_gradient(norms[r], products[r], rule);
}
// ---- queries: s = sum_i qh_i * grad_y_i, grad_q_i = J(q_i, grad_y_i * g) -------------------------

template <class T>
struct QueryGradientArguments {
  Rows<const T> q;
  Rows<const T> grad_y;
  Rows<T> grad_q;
  const float* global;  ///< (B, D): g
  NormRule rule;
  SplitSum split_sum;
  const float* feature_scale;  ///< (D) or null
  float* dc;                   ///< (B, D): feature_scale * s
  const float* sum;            ///< (B, D): c; read for grad_feature_scale
  float* grad_feature_scale;   ///< (B, D) or null: c * s
};

template <class T>
__device__ __forceinline__ void finish_query_gradient(const QueryGradientArguments<T>& p,
                                                      const Split& split) {
  finish_sum(p.split_sum, split, [&](int f, float sum) {
    const std::int64_t at = split.image * p.split_sum.dim + f;
    p.dc[at] = p.feature_scale == nullptr ? sum : p.feature_scale[f] * sum;
    if (p.grad_feature_scale != nullptr) p.grad_feature_scale[at] = p.sum[at] * sum;
  });
}

template <class T, int packs>
__global__ void __launch_bounds__(kThreads, packs >= 6 ? 1 : 2)
    query_gradient_kernel(const QueryGradientArguments<T> p) {
  constexpr int kWidth = device::kPackSize<T>;
  constexpr int kRows = rows_in_flight(packs);
  auto& shared = device::block_shared<ProjectShared>();
  const Split split = split_of_block(p.split_sum);
  const int dim = p.split_sum.dim;
  const float* global = p.global + split.image * dim;
  LaneSums<T, packs> sums = {};
  for (int first = device::warp_index() * kRows; first < split.rows; first += kWarps * kRows) {
    const std::int64_t token = split.begin + first;
    RowShare<T, packs> q[kRows];
    RowShare<T, packs> grad_y[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const bool inside = first + r < split.rows;
      q[r] = load_row<packs>(row_of(p.q, split.image, token + r), dim, inside);
      grad_y[r] = load_row<packs>(row_of(p.grad_y, split.image, token + r), dim, inside);
    }
    NormGradient derived[kRows];
    gradients_of_rows(q, grad_y, global, dim, p.rule, derived);
#pragma unroll
    for (int pack = 0; pack < packs; ++pack) {
      const int at = pack_start<T>(pack);
      if (at >= dim) continue;
      float g[kWidth];  // again from L1: there is no room to keep it
      load_floats(global + at, g);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (first + r >= split.rows) continue;
        float gradients[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i)
          gradients[i] = derived[r](device::value_of(q[r].pack[pack], i),
                                    device::value_of(grad_y[r].pack[pack], i) * g[i]);
        device::store_global(row_of(p.grad_q, split.image, token + r) + at,
                             device::from_floats<T>(gradients));
        device::forget_values(q[r].pack[pack]);
        device::forget_values(grad_y[r].pack[pack]);
      }
    }
    float factor[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) factor[r] = first + r < split.rows ? derived[r].inverse : 0.0F;
    add_products(q, grad_y, factor, sums);
  }
  add_warps<T, packs>(sums, shared, split.partial, dim);
  finish_query_gradient(p, split);
}

// ---- keys: grad_k_t = J(k_t, w_t dc * v_t), grad_v_t = w_t dc * kh_t -----------------------------

template <class T>
struct KeyGradientArguments {
  Rows<const T> k;
  Rows<const T> v;
  Rows<T> grad_k;
  Rows<T> grad_v;
  const float* dc;  ///< (B, D)
  std::int64_t tokens;
  device::TokenWeights weights;
  NormRule rule;
  int dim;
  int blocks_of_image;
};

template <class T, int packs>
__global__ void __launch_bounds__(kThreads, 2)
    key_gradient_kernel(const KeyGradientArguments<T> p) {
  constexpr int kWidth = device::kPackSize<T>;
  constexpr int kRows = rows_in_flight(packs);
  const BlockRows rows = rows_of_block(p.tokens, p.blocks_of_image);
  const float* dc = p.dc + rows.image * p.dim;
  for (int first = device::warp_index() * kRows; first < rows.count; first += kWarps * kRows) {
    const std::int64_t token = rows.begin + first;
    RowShare<T, packs> k[kRows];
    RowShare<T, packs> v[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const bool inside = first + r < rows.count;
      k[r] = load_row<packs>(row_of(p.k, rows.image, token + r), p.dim, inside);
      v[r] = load_row<packs>(row_of(p.v, rows.image, token + r), p.dim, inside);
    }
    NormGradient derived[kRows];
    float weight[kRows];
    gradients_of_rows(k, v, dc, p.dim, p.rule, derived);
#pragma unroll
    for (int r = 0; r < kRows; ++r) weight[r] = p.weights.of(token + r);
#pragma unroll
    for (int pack = 0; pack < packs; ++pack) {
      const int at = pack_start<T>(pack);
      if (at >= p.dim) continue;
      float of_c[kWidth];
      load_floats(dc + at, of_c);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (first + r >= rows.count) continue;
        float of_k[kWidth];
        float of_v[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          const float key = device::value_of(k[r].pack[pack], i);
          of_k[i] = weight[r] * derived[r](key, device::value_of(v[r].pack[pack], i) * of_c[i]);
          of_v[i] = weight[r] * (key * derived[r].inverse) * of_c[i];
        }
        device::store_global(row_of(p.grad_k, rows.image, token + r) + at,
                             device::from_floats<T>(of_k));
        device::store_global(row_of(p.grad_v, rows.image, token + r) + at,
                             device::from_floats<T>(of_v));
      }
    }
  }
}

}  // namespace hydrascope::kernels::hydra::cuda
