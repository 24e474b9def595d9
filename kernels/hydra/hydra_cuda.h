// Hydra attention on a GPU, all images and tokens at once, forward and backward (Bolya et al. 2022,
// arXiv 2209.07484, equation 8, with the deviations that hydra.h names: epsilon, token weights,
// feature scale). Used by the GPU plan and by training for the mechanisms hydra.h's Norm covers.
//   c_b = sum_t w_t (k_t / r(k_t)) * v_t      g_b = feature_scale * c_b
//   y_i = (q_i / r(q_i)) * g_b
// Backward, of grad_y (qh = q / r, kh = k / r, J the vector-Jacobian product of x / r(x)):
//   s_b = sum_i qh_i * grad_y_i               dc_b = feature_scale * s_b
//   grad_q_i = J(q_i, grad_y_i * g_b)         grad_k_t = J(k_t, w_t dc_b * v_t)
//   grad_v_t = w_t dc_b * kh_t                grad_feature_scale_b = c_b * s_b
// A token with |x| < eps is a constant: grad_q, grad_k are 0 there (by every Eps, as the modules'
// default has it), grad_v is not.
//
// Tensors: rows contiguous, any strides, alignment and dim; fastest (rows in registers as packs of
//   16 bytes) where 16 bytes divide rows, strides and addresses, for D <= 1536 (float32: 768). y
//   may be q; nothing else may overlap. `global`, `sum` are written where there are images, for no
//   tokens with the empty sum.
// Geometry: hydra_geometry.h; kernels: hydra.cuh, hydra_backward.cuh. Two launches each.
// Traffic: forward 4 N D s bytes (2 N D s by project, 2 N D s by gate) and N D / 8 floats of
//   partial sums, in L2 (50 MB and 0.8 MB per image for D = 768, N = 8161, bfloat16: by estimate
//   11.7 us at an H200's 4.3 TB/s); about 8 N D FLOPs, so bound by memory. Backward 7 N D s (q,
//   grad_y once, k, v once, three gradients), about 24 N D FLOPs.
// Numerics: float32; 1/r is formed once per row and multiplied; one rounding to T when stored. Sums
//   over tokens in an order that N, D and alignment alone fix: not the batch, not the GPU; no
//   floating-point atomics, so every run gives the same bits. NaN in k reaches its image's c, in v
//   its feature, in q its row.
// Preconditions: a workspace, else Error(internal); 0 <= queries <= tokens < 2^29, dim < 2^29, else
//   Error(invalid_argument). No image or no feature: nothing is launched.
// Test: tests/kernels/hydra/hydra_cuda_test.cpp; twins: forward_reference and backward_reference of
//   hydra_reference.h beside it.
#pragma once

#include "kernels/device/rows.h"
#include "kernels/device/stream.h"
#include "kernels/hydra/hydra.h"
#include "kernels/vector/scalar_types.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::kernels::hydra::cuda {

using device::Rows;

struct Shape {
  std::int64_t images;
  std::int64_t tokens;   ///< N, of k and v
  std::int64_t queries;  ///< leading tokens that have a query, at most `tokens`
  std::int64_t dim;
  Kernel kernel;
  std::int64_t num_prefix;  ///< leading tokens that weigh `prefix_weight` in c
  float prefix_weight;
  float patch_weight;
};

/// Bytes that `forward` and `backward` work in, 256-byte aligned. The first workspace_zero_bytes of
/// them must be zero before the first call with them and are ready for the next of this shape after
/// each call (counters return to zero; another shape has its counters elsewhere, among what these
/// calls leave as sums).
std::size_t workspace_bytes(const Shape& shape);
std::size_t workspace_zero_bytes(const Shape& shape);

template <class T>
struct ForwardParams {
  Shape shape;
  Rows<const T> q;
  Rows<const T> k;
  Rows<const T> v;
  const float* feature_scale;  ///< (D) or null
  float* global;               ///< (B, D): g = feature_scale * c; what maps and `backward` read
  Rows<T> y;
  void* workspace;
  float* sum = nullptr;  ///< (B, D) or null: c, which only `grad_feature_scale` needs
};
/// T: float, BFloat16 or Float16.
template <class T>
void forward(const ForwardParams<T>& params, device::Stream stream);

template <class T>
struct BackwardParams {
  Shape shape;  ///< queries = tokens
  Rows<const T> q;
  Rows<const T> k;
  Rows<const T> v;
  const float* feature_scale;
  const float* global;  ///< of `forward`
  Rows<const T> grad_y;
  Rows<T> grad_q;
  Rows<T> grad_k;
  Rows<T> grad_v;
  float* grad_feature_scale;  ///< (B, D), one row per image, or null
  void* workspace;
  /// What `forward` wrote; needed where feature_scale and its gradient are given.
  const float* sum = nullptr;
};
/// T: float, BFloat16 or Float16.
template <class T>
void backward(const BackwardParams<T>& params, device::Stream stream);

}  // namespace hydrascope::kernels::hydra::cuda
