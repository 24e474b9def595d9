// Linear attention on a GPU, all images and tokens at once, forward, by tensor cores (Katharopoulos et
// al. 2020, arXiv 2006.16236, equations 4-6; Hedgehog: Zhang et al. 2024, arXiv 2402.04347). Used
// by the GPU plan and by the operators for every mechanism that has a Feature, in 16-bit types and
// heads of 64; LibTorch's formula (model/ops/linear_attention.h) computes all others, and gradients.
// Maps, stabilisation, weights and normaliser are linear_attention.h's; per head
//   b_tf = w_t exp(W_tf - M_f)    M_f = max_t W_tf            S = sum_t b_t v_t^T    z = sum_t b_t
//   a_if = exp(U_if + M_f - max_i)    max_i = max_f (U_if + M_f)
//   y_i = (a_i^T S) / m_i    m_i = a_i . z (at least 1 where w_t = 1), or without exponents, where
//                            M_f = max_i = 0, a_i . z + eps, or 1 by Normaliser::none
//
// Tensors: rows by Rows, 16 bytes divide addresses and strides; the state is float32. Nothing may
//   overlap. Features are never stored.
// Geometry, traffic, numerics: the kernels' files (tensor_core_*.cuh). FLOPs: 4 N F d per head.
//   Deterministic, and the same bits for every batch that an image is in.
// Tolerance: 2.5 roundings of T of the largest of a head (linear_attention_cuda_test.cpp has it by kind).
// Preconditions: `serves`, aligned rows, 0 <= queries <= tokens, at least one head with elements,
//   a workspace unless its size is 0; else Error(internal).
//   Without images or tokens nothing is launched or written, without queries the state alone.
// Test: tests/kernels/linear_attention/linear_attention_cuda_test.cpp; twin:
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

/// Whether there are kernels for it: heads of 64 in BFloat16 and, by maps of exponentials, in Float16:
/// only these stay in its range. No negative token weight with exponents: its logarithm would shift
/// them.
template <class T>
constexpr bool serves(const Shape& shape, const Extent& extent) {
  if (sizeof(T) != 2 || shape.width != 64 || shape.head_dim != 64) return false;
  if (shape.rule.normaliser.rule == Normaliser::Rule::signed_clamp) return false;
  if (!is_exponential(shape.rule.feature)) return std::is_same_v<T, BFloat16>;
  return (extent.weights.num_prefix <= 0 || extent.weights.prefix >= 0) &&
         extent.weights.patch >= 0;
}

/// Floats of the keys' state, which `forward` writes: S (B, H, F, d), z (B, H, F), M (B, H, F),
/// float32; M is 0 for maps without exponents.
std::size_t state_floats(const Shape& shape, const Extent& extent);
/// Bytes that `forward` works in; their content does not matter.
std::size_t workspace_bytes(const Shape& shape, const Extent& extent);

template <class T>
struct ForwardParams {
  Shape shape;
  Extent extent;
  Rows<const T> q;  ///< (B, queries, H * w)
  Rows<const T> k;  ///< (B, N, H * w)
  Rows<const T> v;  ///< (B, N, H * d)
  Rows<T> y;        ///< (B, queries, H * d)
  float* state;     ///< state_floats
  void* workspace;  ///< workspace_bytes, 256-byte aligned; may be null if these are 0
};
/// T: BFloat16 or Float16.
template <class T>
void forward(const ForwardParams<T>& params, device::Stream stream);

}  // namespace hydrascope::kernels::linear_attention::cuda
