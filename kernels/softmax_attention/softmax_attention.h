// Softmax attention of one image in two steps, without the N x N matrix:
//   pack     keys and values of a tile of tokens into panels, once
//   attend   y for a tile of queries, over all keys in blocks
//
// Equation: y_i = sum_j softmax_j(q_i . k_j) v_j for each head (Vaswani et al. 2017, arXiv
//   1706.03762, equation 1), with the running maximum and sum of Milakov and Gimelshein 2018, arXiv
//   1805.02867. The projection that makes q contains the scale 1/sqrt(d). With `sees` the sums are
//   over the keys that a query sees. With `part` numerators, denominators and maxima are kept in
//   few_queries.h's form; its merge_parts makes y from parts of disjoint keys.
// Tensors: q, k, v, y (rows, H d), float32 or bfloat16, rows contiguous, strides free, any
//   alignment; nothing is read or written between rows. y may be q (with q's stride), nothing else
//   may overlap. keys: for each head and 64 tokens a panel (kernels/linear/panel.h) of d by 64, in
//   bfloat16 with the columns of 32 tokens in the order 0 2 4 .. 30 1 3 .. 31 (see weights-inl.h),
//   zeros after token N; values: for each head and 64 columns of d a panel of N by 64, zeros
//   after column d. Panels are alike on every instruction set.
//   In bytes (byte_panels.h) keys hold, for each head and 64 tokens, a panel of d by 64 int8 and their
//   numbers, values a panel of N by 64 int8 for each head and 64 columns of d.
// Work of attend: 4 rows N H d FLOPs and rows N H exponentials. A group of queries reads all keys
//   and values, 2 N H d elements: a tile of 100 rows does 200 FLOPs per element of T, so that
//   blocks of keys wait in L2 and the micro-kernel is the bound. bfloat16 heads of at least 32
//   columns multiply by AMX where the process may (amx/tile_strips-inl.h). Products also compute
//   the filling of N up to 32 keys (in q k^T) and of d up to 64 columns (in the product with v).
//   With `sees` a strip of six queries (32 by AMX) computes from the first panel of 64 keys that
//   one of them sees to the last 32. pack: reads and writes 2 rows H d elements, rows once and in
//   order.
// Numerics: scores, sums and outputs are float32; blocks of keys in order. Weights are e^(s - m), m
//   the maximum so far, at most 1 and rounded to T; the divisor is the sum of the rounded weights.
//   Outputs are rescaled only when m rises. Weights below 2^-126 are zero, and so are weights after
//   N. A row's result depends neither on the other rows nor on the number of threads. NaN in q
//   reaches its head of that row, in k all rows of the head, in v that column of all rows (the NaN
//   of an unseen key: in v perhaps, in k never). +inf scores give NaN, and so does a query without
//   a score above -inf; in a part its sums are zero. Tolerance, of the largest |v|: a rounding to
//   T, and 1.2e-7 sqrt(d) times the largest sum of magnitudes of a score.
//   In bytes each head of a row of q, k and v has a scale of its own, so that a row's bytes depend on
//   no other row and no calibration is asked for. (SageAttention, Zhang et al. 2024, arXiv 2410.02367,
//   quantises q and k alone, takes off the mean of k before, and multiplies values in float16.) Weights
//   times their values' scales are rounded to 254ths of the largest such product of a block of keys, up
//   or down by a threshold of the key's own, so that small weights beside a large one count in the
//   mean; the divisor is the sum before rounding. NaN or infinity in q reaches its head of that row, in
//   k and v all rows of the head. The error's root mean square over v's: 0.3 % against the softmax of
//   the rounded q, k and v, 0.8 % against the exact one, less with more keys.
// Preconditions (not checked): N, H, d >= 1; rows >= 0; all N tokens are packed before attend;
//   first + rows <= N; keys and values hold keys_size and values_size elements; bits of `sees`
//   behind the last key are zero.
// Test: tests/kernels/softmax_attention/softmax_attention_test.cpp, byte_attention_test.cpp; twin:
//   softmax_attention_reference.h beside them.
#pragma once

#include "kernels/vector/scalar_types.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::kernels::softmax_attention {

/// The numbers that both products of attention multiply.
enum class Products {
  of_rows,  ///< of the rows' type
  bytes,    ///< of 8 bits; without `sees` and `part`
};
/// Whether `bytes` is the faster of both for such heads: vpdpbusd is there, and AMX, which multiplies
/// bfloat16, is not.
bool bytes_are_faster(std::int64_t head_dim);

struct Shape {
  std::int64_t num_tokens;
  std::int64_t num_heads;
  std::int64_t head_dim;
  Products products = Products::of_rows;

  [[nodiscard]] constexpr Shape of_heads(std::int64_t heads) const {
    return {num_tokens, heads, head_dim, products};
  }
  [[nodiscard]] constexpr Shape of_tokens(std::int64_t tokens) const {
    return {tokens, num_heads, head_dim, products};
  }
};

/// Elements of T that the packed keys and values of one image take, all heads.
template <class T>
std::size_t keys_size(const Shape& shape);
template <class T>
std::size_t values_size(const Shape& shape);
extern template std::size_t keys_size<float>(const Shape&);
extern template std::size_t keys_size<BFloat16>(const Shape&);
extern template std::size_t values_size<float>(const Shape&);
extern template std::size_t values_size<BFloat16>(const Shape&);

/// Several threads may pack tiles at the same time if every `first` is even. The call that packs
/// the last tokens also fills the panels after them.
template <class T>
struct PackParams {
  Shape shape;
  const T* k;  ///< (rows, H * d), rows `stride` apart
  const T* v;
  std::int64_t stride;
  std::int64_t first;  ///< token of the first row
  std::int64_t rows;
  T* keys;
  T* values;
};
void pack(const PackParams<float>& params);
void pack(const PackParams<BFloat16>& params);

/// Words of a query's row of `sees`.
constexpr std::int64_t sees_words(std::int64_t num_tokens) { return (num_tokens + 31) / 32; }
/// A key's bit in that row: in order, in bfloat16 in the order of the columns of the keys' panels.
template <class T>
constexpr std::int64_t sees_bit(std::int64_t key) {
  if constexpr (sizeof(T) == 2) return key / 32 * 32 + key % 2 * 16 + key % 32 / 2;
  return key;
}

/// Bytes of working memory of `attend`, whatever the rows; each thread needs its own.
template <class T>
std::size_t scratch_bytes(const Shape& shape);
extern template std::size_t scratch_bytes<float>(const Shape&);
extern template std::size_t scratch_bytes<BFloat16>(const Shape&);

template <class T>
struct AttendParams {
  Shape shape;
  const T* q;  ///< (rows, H * d), rows `q_stride` apart, scaled
  std::int64_t q_stride;
  std::int64_t rows;
  const T* keys;
  const T* values;
  T* y;  ///< (rows, H * d), rows `y_stride` apart; may be q
  std::int64_t y_stride;
  void* scratch;  ///< 64-byte aligned
  /// The keys that each query sees, the same for all heads: (rows, sees_words) bits; null: all.
  const std::uint32_t* sees = nullptr;
  /// Written in place of y, which may be null then: (rows, H, d + 2).
  float* part = nullptr;
};
void attend(const AttendParams<float>& params);
void attend(const AttendParams<BFloat16>& params);

}  // namespace hydrascope::kernels::softmax_attention
