// Softmax attention of a few queries over many keys, which lie as the projection left them. Threads
// share the keys in parts:
//   attend_part   reads one part's keys and gives, for each query and head, the largest score, the
//                 sum of the weights against it and the weighted sum of the values
//   merge_parts   makes y from all parts
// A class token asks all patches so where patches see few of each other. softmax_attention.h serves
// many queries and packs its keys first.
//
// Equation: y_i = sum_j softmax_j(s_ij) v_j for each head h, s_ij = f_h (q_i . k_j) + b_h; the bias
//   b belongs to a part's keys, so that some keys may count for more than others. Parts as in
//   Milakov and Gimelshein 2018, arXiv 1805.02867. The scale 1/sqrt(d) is part of q.
// Tensors: q, k, v, y (rows, H d), float32 or bfloat16, rows contiguous, strides free, any
//   alignment; nothing is read or written between rows. A part is float32, (rows, H, d + 2): sums
//   of values, the sum of weights, the largest score. Nothing may overlap.
// Work: 4 rows N H d FLOPs, N H rows exponentials; a part's keys and values, 2 N H d elements of T,
//   are read once for all queries, and their memory is the bound. merge_parts reads the parts once
//   and takes an exponential per vector.
// Numerics: float32, weights are not rounded to T. The order of a part's sums depends on the
//   vectors' length; parts are added in order; a row's result depends on no other row. Weights
//   below 2^-126 are zero. NaN in q reaches its head of that row, in k or v that head (in v that
//   column) of all rows; +inf scores give NaN, and so does a query without a score above -inf.
//   Tolerance, of the largest |v|: a rounding to T, and 1.2e-7 sqrt(d) times the largest sum of
//   magnitudes of a score.
// Preconditions (not checked): H, d >= 1; rows >= 0; 1 <= num_tokens <= kPartKeys in attend_part.
// Test: tests/kernels/softmax_attention/few_queries_test.cpp; twin: softmax_attention_reference.h.
#pragma once

#include "kernels/softmax_attention/softmax_attention.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::kernels::softmax_attention {

/// Keys of a part, at most: a head's keys and values, 64 KB at d = 64 in bfloat16, stay in L2 while
/// the queries pass.
inline constexpr std::int64_t kPartKeys = 256;

/// Floats of one part.
constexpr std::size_t part_size(std::int64_t rows, std::int64_t num_heads, std::int64_t head_dim) {
  return static_cast<std::size_t>(rows * num_heads * (head_dim + 2));
}

template <class T>
struct PartParams {
  Shape shape;  ///< num_tokens: the part's keys
  const T* q;   ///< (rows, H * d), rows `q_stride` apart, scaled
  std::int64_t q_stride;
  std::int64_t rows;
  const T* k;  ///< (num_tokens, H * d), rows `stride` apart
  const T* v;
  std::int64_t stride;
  const float* factor;  ///< f (H), or null: 1
  const float* bias;    ///< b (H), or null: 0
  float* part;
};
void attend_part(const PartParams<float>& params);
void attend_part(const PartParams<BFloat16>& params);

template <class T>
struct MergeParams {
  std::int64_t num_heads;
  std::int64_t head_dim;
  std::int64_t rows;
  const float* parts;   ///< `count` parts, at the first of these rows
  std::int64_t stride;  ///< floats from one part to the next: part_size of all rows
  std::int64_t count;
  T* y;  ///< (rows, H * d), rows `y_stride` apart
  std::int64_t y_stride;
};
void merge_parts(const MergeParams<float>& params);
void merge_parts(const MergeParams<BFloat16>& params);

}  // namespace hydrascope::kernels::softmax_attention
