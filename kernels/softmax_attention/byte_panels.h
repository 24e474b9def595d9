// Keys and values of attention in 8 bits (Products::bytes), as vpdpbusd reads them. A token's head has
// a scale of its own in k and in v, its greatest magnitude over 127, so that packing a token needs no
// other:
//   k_ji = t_j a_ji,  v_ji = w_j b_ji,  a and b in int8
//   keys    a panel is 64 keys by d, [i / 4][64][4], and the numbers of its keys
//   values  a panel is 64 columns of d by all tokens, [j / 4][64][4]
// Zeros fill up what is not there; weights of keys after the last one are zero.
#pragma once

#include "kernels/linear/panel.h"
#include "kernels/softmax_attention/softmax_attention.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace hydrascope::kernels::softmax_attention {

/// Elements that one step of vpdpbusd multiplies.
inline constexpr std::int64_t kQuad = 4;
constexpr std::int64_t in_quads(std::int64_t count) { return (count + kQuad - 1) / kQuad * kQuad; }

/// Base-2 logarithms of weights come from sums S of products of unsigned queries and of keys by
/// (S scale + shift) times the query's scale + value_log.
struct KeyNumbers {
  float scale[linear::kPanelColumns];          ///< t_j log2 e
  float shift[linear::kPanelColumns];          ///< -128 t_j log2 e sum_i a_ji
  float value_log[linear::kPanelColumns];      ///< log2 w_j; -inf after the last key
  float value_inverse[linear::kPanelColumns];  ///< 1 / w_j; 0 after the last key
};

/// Rows of smaller magnitudes count as zeros, whose w_j is less than any other: a value that adds nothing
/// takes no steps from those that do.
inline constexpr float kLeastMagnitude = 1e-17F;
inline constexpr float kScaleOfZeros = 0x1p-64F;
static_assert(kLeastMagnitude / 127 > kScaleOfZeros);

constexpr std::int64_t key_bytes(std::int64_t head_dim) {
  return in_quads(head_dim) * linear::kPanelColumns;
}
constexpr std::int64_t key_panel_bytes(std::int64_t head_dim) {
  return key_bytes(head_dim) + static_cast<std::int64_t>(sizeof(KeyNumbers));
}
constexpr std::int64_t value_panel_bytes(std::int64_t num_tokens) {
  return in_quads(num_tokens) * linear::kPanelColumns;
}

/// Bytes before a head's keys, and before its values.
constexpr std::int64_t keys_before(const Shape& shape, std::int64_t head) {
  return head * linear::panels_of(shape.num_tokens) * key_panel_bytes(shape.head_dim);
}
constexpr std::int64_t values_before(const Shape& shape, std::int64_t head) {
  return head * linear::panels_of(shape.head_dim) * value_panel_bytes(shape.num_tokens);
}
/// The numbers of a panel of keys.
inline KeyNumbers& numbers_of(std::int8_t* panel, std::int64_t head_dim) {
  return *reinterpret_cast<KeyNumbers*>(panel + key_bytes(head_dim));
}
inline const KeyNumbers& numbers_of(const std::int8_t* panel, std::int64_t head_dim) {
  return *reinterpret_cast<const KeyNumbers*>(panel + key_bytes(head_dim));
}

/// Keys of a block at most: they stay in L2 while a group of queries passes.
inline constexpr std::int64_t kByteBlockKeys = 512;
/// The greatest weight of a block: 255, less the error of the exponential, which must not carry.
inline constexpr float kLargestByte = 254.0F;

/// A weight below 256 plus its key's rounder is a float32 with the rounded weight in its second lowest
/// byte: the unit is 2^-8, and weights are rounded up from 1 less the rounder's fraction on. The
/// fractions are the golden ratio's multiples, which spread evenly over neighbours. They are alike
/// for all queries, heads and blocks: weights of a tenth of a step all count at the same tenth of the keys.
template <std::size_t kCount>
constexpr std::array<float, kCount> rounders() {
  std::array<float, kCount> all{};
  double fraction = 0;
  for (float& rounder : all) {
    rounder = 49152.0F + static_cast<float>(static_cast<int>(256 * fraction)) / 256.0F;
    fraction += 0.6180339887498949;  // (sqrt(5) - 1) / 2
    if (fraction >= 1) fraction -= 1;
  }
  return all;
}

}  // namespace hydrascope::kernels::softmax_attention
