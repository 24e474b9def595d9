// Linear attention on a GPU, all images and tokens at once, forward and backward (Katharopoulos et
// al. 2020, arXiv 2006.16236, equations 4-6; Hedgehog: Zhang et al. 2024, arXiv 2402.04347). Used
// by the GPU plan and by training for every mechanism that has a Feature. Maps, stabilisation,
// weights and normaliser are linear_attention.h's; per head
//   b_tf = w_t exp(W_tf - M_f)    M_f = max_t W_tf            S = sum_t b_t v_t^T    z = sum_t b_t
//   a_if = exp(U_if + M_f - max_i)    max_i = max_f (U_if + M_f)
//   y_i = (a_i^T S) / m_i    m_i = a_i . z (at least 1 where w_t = 1), or without exponents, where
//                            M_f = max_i = 0, a_i . z + eps, or 1 by Normaliser::none
// and backward, with M, max_i and m constants (gh_i = grad_y_i / m_i):
//   delta_i = gh_i . y_i          dS = sum_i a_i gh_i^T       dz = -sum_i delta_i a_i  (`none`: 0)
//   grad_q_i = J(q_i)^T (S gh_i - delta_i z)                  grad_v_t = dS^T b_t
//   grad_k_t = J(k_t)^T w_t (dS v_t + dz)
// At points without a derivative J is by the rules of linear_attention_reference.h.
//
// Two families of kernels, by T: 16-bit rows in heads of 64 on tensor cores (tensor_core_*.cuh),
// float32 rows in heads of any multiple of four in float32 arithmetic (simt_*.cuh). `serves` tells
// whether there are kernels; `state` and `denominator` mean the same to both families.
// Tensors: rows by Rows, 16 bytes divide addresses and strides; state and denominator float32. Nothing
//   may overlap. Features are never stored.
// Geometry, traffic, numerics: the kernels' files. FLOPs: forward 4 N F d per head, backward 8 N F
//   d. Deterministic, and the same bits for every batch that an image is in.
// Tolerance: float32 4e-6 of the sum of magnitudes, gradients 8e-6; 16-bit types 2.5 roundings of T
//   of the largest of a head (tensor_core_cuda_test.cpp has them by kind).
// Preconditions: `serves`, aligned rows, 0 <= queries <= tokens, at least one head with elements,
//   a workspace unless its size is 0; else Error(internal).
//   Without images or tokens nothing is launched or written, without queries the state alone.
// Tests: tests/kernels/linear_attention/{linear_attention,tensor_core}_cuda_test.cpp; twins:
//   linear_attention_reference.h beside it.
#pragma once

#include "kernels/device/rows.h"
#include "kernels/device/stream.h"
#include "kernels/linear_attention/linear_attention.h"
#include "kernels/vector/scalar_types.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace hydrascope::kernels::linear_attention::cuda {

/// Rows of H heads: head h of a token begins at h * (values of a head).
using device::Rows;

/// All tokens of a batch.
struct Extent {
  std::int64_t images;
  std::int64_t tokens;   ///< N, of k and v
  std::int64_t queries;  ///< leading tokens that have a query, at most `tokens`
  TokenWeights weights;  ///< w of key features
};

/// Whether there are kernels for it. T: float, heads of any multiple of four; BFloat16, heads of 64;
/// Float16, the forward pass of heads of 64 by maps of exponentials: only these stay in its range.
/// Tensor cores serve no negative token weight with exponents: its logarithm would shift them.
template <class T>
constexpr bool serves(const Shape& shape, const Extent& extent) {
  if (shape.rule.normaliser.rule == Normaliser::Rule::signed_clamp) return false;
  if constexpr (sizeof(T) == 4) {
    return shape.width % 4 == 0 && shape.head_dim % 4 == 0;
  } else {
    if (shape.width != 64 || shape.head_dim != 64) return false;
    if (!is_exponential(shape.rule.feature)) return std::is_same_v<T, BFloat16>;
    return (extent.weights.num_prefix <= 0 || extent.weights.prefix >= 0) &&
           extent.weights.patch >= 0;
  }
}

/// Floats of the keys' state, which `forward` writes: S (B, H, F, d), z (B, H, F), M (B, H, F),
/// float32; M is 0 for maps without exponents.
std::size_t state_floats(const Shape& shape, const Extent& extent);
/// Bytes that `forward` works in, and `backward`, which keeps more; their content does not matter.
template <class T>
std::size_t workspace_bytes(const Shape& shape, const Extent& extent);
template <class T>
std::size_t backward_workspace_bytes(const Shape& shape, const Extent& extent);

template <class T>
struct ForwardParams {
  Shape shape;
  Extent extent;
  Rows<const T> q;     ///< (B, queries, H * w)
  Rows<const T> k;     ///< (B, N, H * w)
  Rows<const T> v;     ///< (B, N, H * d)
  Rows<T> y;           ///< (B, queries, H * d)
  float* state;        ///< state_floats
  float* denominator;  ///< (B, H, queries): m_i, for `backward`; may be null
  void* workspace;     ///< workspace_bytes, 256-byte aligned; may be null if these are 0
};
/// T: float, BFloat16 or Float16.
template <class T>
void forward(const ForwardParams<T>& params, device::Stream stream);

template <class T>
struct BackwardParams {
  Shape shape;
  Extent extent;  ///< as in `forward`; on tensor cores queries = tokens
  Rows<const T> q;
  Rows<const T> k;
  Rows<const T> v;
  Rows<const T> y;
  const float* state;
  const float* denominator;
  Rows<const T> grad_y;
  Rows<T> grad_q;
  Rows<T> grad_k;
  Rows<T> grad_v;
  void* workspace;  ///< backward_workspace_bytes, 256-byte aligned
};
/// T: float or BFloat16, the types of training.
template <class T>
void backward(const BackwardParams<T>& params, device::Stream stream);

}  // namespace hydrascope::kernels::linear_attention::cuda
