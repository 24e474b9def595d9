// Softmax attention of one image in two steps, without the N x N matrix (Vaswani et al. 2017, arXiv
// 1706.03762, equation 1; the running maximum and sum: Milakov and Gimelshein 2018, arXiv 1805.02867):
//   pack     keys and values of a tile of tokens into panels, once
//   attend   y_i = sum_j softmax_j(q_i . k_j) v_j for a tile of queries, over all keys in blocks
// The scale 1/sqrt(d) is part of q: folded into the projection that made it.
#pragma once

#include "kernels/vector/scalar_types.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::kernels::softmax_attention {

struct Shape {
  std::int64_t num_tokens;
  std::int64_t num_heads;
  std::int64_t head_dim;
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

/// Tiles may be packed at the same time by several threads when every `first` is even. Whoever packs
/// the last tokens also fills what lies behind them.
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

/// Bytes of working memory of `attend`, whatever the rows.
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
};
void attend(const AttendParams<float>& params);
void attend(const AttendParams<BFloat16>& params);

}  // namespace hydrascope::kernels::softmax_attention
