// Rows of float32 or bfloat16 as the 8-bit numbers that attention multiplies: queries as unsigned
// rows, keys and values as panels (byte_panels.h). Test: softmax_attention.h.
// Included after hwy/highway.h, once per instruction set.
#if defined(HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_PACK_BYTES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_PACK_BYTES_INL_H
#undef HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_PACK_BYTES_INL_H
#else
#define HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_PACK_BYTES_INL_H
#endif

#include "kernels/linear/transpose-inl.h"
#include "kernels/quantised_linear/to_bytes-inl.h"
#include "kernels/softmax_attention/byte_panels.h"
#include "kernels/softmax_attention/pack-inl.h"

#include <cmath>
#include <cstring>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

using softmax_attention::KeyNumbers;
using softmax_attention::kQuad;

/// x_i = scale * nearest(x_i * inverse), up to half a scale. NaN or infinity in x: scale is NaN.
/// Zeros: both are 0.
struct ByteScale {
  float scale;
  float inverse;
};
template <class T>
HWY_INLINE ByteScale byte_scale(const T* x, std::int64_t count) {
  // Patterns of magnitudes are ordered as the magnitudes, infinity and NaN behind all numbers.
  const hn::Rebind<std::int32_t, F32> di32;
  const auto magnitude = hn::Set(di32, 0x7fffffff);
  auto largest = hn::Zero(di32);
  for (std::int64_t i = 0; i < count; i += static_cast<std::int64_t>(lanes()))
    largest = hn::Max(largest, hn::And(hn::BitCast(di32, take(x + i, count - i)), magnitude));
  const float most = hn::GetLane(hn::BitCast(F32(), hn::MaxOfLanes(di32, largest)));
  // A NaN's own payload would reach the exponents of weights.
  if (!(most <= std::numeric_limits<float>::max()))
    return {std::numeric_limits<float>::quiet_NaN(), 0};
  if (most < softmax_attention::kLeastMagnitude) return {0, 0};
  return {most / 127.0F, 127.0F / most};
}

/// 64 columns of a row, zeros behind `count`, as bytes u with x = scale (u - 128). Returns sum (u - 128),
/// exactly.
template <class T>
HWY_INLINE float put_bytes(const T* x, std::int64_t count, float inverse, const ByteStore& store,
                           std::uint8_t* to) {
  const F32 d;
  const hn::Rebind<std::int32_t, F32> di32;
  const auto n = static_cast<std::int64_t>(lanes());
  const VecF32 factor = hn::Set(d, inverse);
  const auto zero = hn::Set(di32, 128);
  auto sum = hn::Zero(di32);
  for (std::int64_t i = 0; i < linear::kPanelColumns; i += 4 * n) {
    const auto number = [&](std::int64_t vector) HWY_ATTR {
      const std::int64_t at = i + vector * n;
      const auto v = nearest(hn::Mul(take(x + at, count - at), factor));
      sum = hn::Add(sum, v);
      return hn::Add(v, zero);
    };
    const auto a = number(0);
    const auto b = number(1);
    const auto c = number(2);
    const auto e = number(3);
    store(a, b, c, e, to + i);
  }
  return static_cast<float>(hn::GetLane(hn::SumOfLanes(di32, sum)));
}

/// One head of a query: bytes u with x_i = scale (u_i - 128), in_quads(head_dim) of them. Returns scale.
template <class T>
HWY_INLINE float put_query(const T* q, std::int64_t head_dim, const ByteStore& store,
                           std::uint8_t* to) {
  HWY_ALIGN std::uint8_t bytes[linear::kPanelColumns];
  const ByteScale by = byte_scale(q, head_dim);
  const std::int64_t end = softmax_attention::in_quads(head_dim);
  for (std::int64_t i = 0; i < end; i += linear::kPanelColumns) {
    put_bytes(q + i, head_dim - i, by.inverse, store, bytes);
    std::memcpy(to + i, bytes, static_cast<std::size_t>(linear::panel_columns(i, end)));
  }
  return by.scale;
}

/// Up to four tokens that begin at `lane` of four neighbours, in 8 bits.
struct ByteQuad {
  std::int64_t lane;
  std::int64_t count;
  HWY_ALIGN std::uint8_t rows[kQuad][linear::kPanelColumns];  ///< of the tokens, from 0 on

  /// 64 columns of every token, in int8. `sums`: theirs are added, unless null.
  template <class T>
  HWY_INLINE void put(const T* x, std::int64_t stride, std::int64_t columns, const ByteScale* by,
                      const ByteStore& store, float* sums) {
    const hn::ScalableTag<std::uint8_t> d8;
    for (std::int64_t r = 0; r < count; ++r) {
      const float sum = put_bytes(x + r * stride, columns, by[r].inverse, store, rows[r]);
      if (sums != nullptr) sums[r] += sum;
      for (std::size_t c = 0; c < kAllColumns; c += hn::Lanes(d8))  // less 128
        hn::StoreU(hn::Xor(hn::LoadU(d8, rows[r] + c), hn::Set(d8, 0x80)), d8, rows[r] + c);
    }
  }
};

/// Words of the quad's tokens -> columns `lane`.. of the words from `words` on.
HWY_INLINE void put_words(const ByteQuad& quad, std::int64_t num_words, std::uint32_t* words) {
  std::int64_t word = 0;
#if HWY_TARGET != HWY_SCALAR
  if (quad.count == kQuad)
    for (; word + 4 <= num_words; word += 4)
      transpose_words(&quad.rows[0][kQuad * word], linear::kPanelColumns,
                      words + word * linear::kPanelColumns, linear::kPanelColumns);
#endif
  for (; word < num_words; ++word)
    for (std::int64_t r = 0; r < quad.count; ++r)
      words[word * linear::kPanelColumns + quad.lane + r] = word_of(&quad.rows[r][kQuad * word]);
}

/// Keys of one head, of the quad's tokens, which begin with token `first`. `panel`: theirs.
template <class T>
HWY_INLINE void put_key_quad(const T* k, std::int64_t stride, std::int64_t first,
                             std::int64_t head_dim, const ByteStore& store, ByteQuad& quad,
                             std::int8_t* panel) {
  constexpr float kLog2E = 1.44269504F;
  ByteScale by[kQuad];
  float sums[kQuad] = {};
  for (std::int64_t r = 0; r < quad.count; ++r) by[r] = byte_scale(k + r * stride, head_dim);
  const std::int64_t column = first % linear::kPanelColumns;
  auto* words = reinterpret_cast<std::uint32_t*>(panel) + column - quad.lane;
  const std::int64_t end = softmax_attention::in_quads(head_dim);
  for (std::int64_t i = 0; i < end; i += linear::kPanelColumns) {
    quad.put(k + i, stride, head_dim - i, by, store, sums);
    put_words(quad, linear::panel_columns(i, end) / kQuad,
              words + i / kQuad * linear::kPanelColumns);
  }
  KeyNumbers& numbers = softmax_attention::numbers_of(panel, head_dim);
  for (std::int64_t r = 0; r < quad.count; ++r) {
    numbers.scale[column + r] = by[r].scale * kLog2E;
    numbers.shift[column + r] = -128.0F * by[r].scale * kLog2E * sums[r];
  }
}

/// Columns of the quad's tokens -> the quad of a panel of values.
HWY_INLINE void put_columns(const ByteQuad& quad, std::int8_t* values) {
#if HWY_TARGET != HWY_SCALAR
  if (quad.count == kQuad) {
    const hn::Full128<std::uint8_t> d8;
    const hn::Full128<std::int16_t> d16;
    auto* to = reinterpret_cast<std::uint8_t*>(values);
    const auto put = [&](auto first_pair, auto second_pair) HWY_ATTR {
      const auto a = hn::BitCast(d16, first_pair);
      const auto b = hn::BitCast(d16, second_pair);
      hn::StoreU(hn::BitCast(d8, hn::InterleaveLower(d16, a, b)), d8, to);
      hn::StoreU(hn::BitCast(d8, hn::InterleaveUpper(d16, a, b)), d8, to + 16);
      to += 32;
    };
    for (std::int64_t c = 0; c < linear::kPanelColumns; c += 16) {
      const auto row = [&](std::size_t r) HWY_ATTR { return hn::Load(d8, quad.rows[r] + c); };
      put(hn::InterleaveLower(d8, row(0), row(1)), hn::InterleaveLower(d8, row(2), row(3)));
      put(hn::InterleaveUpper(d8, row(0), row(1)), hn::InterleaveUpper(d8, row(2), row(3)));
    }
    return;
  }
#endif
  // Byte by byte: another thread may pack the other tokens of the quad.
  for (std::int64_t c = 0; c < linear::kPanelColumns; ++c)
    for (std::int64_t r = 0; r < quad.count; ++r)
      values[kQuad * c + quad.lane + r] = static_cast<std::int8_t>(quad.rows[r][c]);
}

/// The same tokens' values, to all panels of the head; `numbers`: of the panel of their keys.
template <class T>
HWY_INLINE void put_value_quad(const T* v, std::int64_t stride, std::int64_t first,
                               const softmax_attention::Shape& shape, const ByteStore& store,
                               ByteQuad& quad, KeyNumbers& numbers, std::int8_t* values) {
  const std::int64_t column = first % linear::kPanelColumns;
  ByteScale by[kQuad];
  for (std::int64_t r = 0; r < quad.count; ++r) {
    by[r] = byte_scale(v + r * stride, shape.head_dim);
    const float scale = by[r].scale == 0 ? softmax_attention::kScaleOfZeros : by[r].scale;
    numbers.value_log[column + r] = std::log2(scale);
    numbers.value_inverse[column + r] = 1.0F / scale;
  }
  values += first / kQuad * kQuad * linear::kPanelColumns;
  for (std::int64_t i = 0; i < shape.head_dim; i += linear::kPanelColumns) {
    quad.put(v + i, stride, shape.head_dim - i, by, store, nullptr);
    put_columns(quad, values);
    values += softmax_attention::value_panel_bytes(shape.num_tokens);
  }
}

/// Fills the panels after the last token: zeros, and numbers that make no weight.
HWY_INLINE void end_panels(const softmax_attention::Shape& shape, std::int8_t* last_keys,
                           std::int8_t* values) {
  const std::int64_t end = shape.num_tokens;
  if (end % linear::kPanelColumns != 0) {
    auto* words = reinterpret_cast<std::uint32_t*>(last_keys);
    const std::int64_t key_bytes = softmax_attention::key_bytes(shape.head_dim);
    KeyNumbers& numbers = softmax_attention::numbers_of(last_keys, shape.head_dim);
    for (std::int64_t c = end % linear::kPanelColumns; c < linear::kPanelColumns; ++c) {
      for (std::int64_t w = 0; w < key_bytes / kQuad; w += linear::kPanelColumns) words[w + c] = 0;
      numbers.scale[c] = numbers.shift[c] = numbers.value_inverse[c] = 0;
      numbers.value_log[c] = -std::numeric_limits<float>::infinity();
    }
  }
  for (std::int64_t i = 0; i < shape.head_dim; i += linear::kPanelColumns) {
    std::int8_t* quad = values + end / kQuad * kQuad * linear::kPanelColumns;
    for (std::int64_t c = 0; end % kQuad != 0 && c < linear::kPanelColumns; ++c)
      for (std::int64_t r = end % kQuad; r < kQuad; ++r) quad[kQuad * c + r] = 0;
    values += softmax_attention::value_panel_bytes(shape.num_tokens);
  }
}

/// Rows of at most kPackTokens tokens.
template <class T>
HWY_INLINE void pack_byte_tokens(const T* k, const T* v, std::int64_t first, std::int64_t rows,
                                 const softmax_attention::PackParams<T>& p) {
  const softmax_attention::Shape& shape = p.shape;
  const std::int64_t d = shape.head_dim;
  const std::int64_t panel_bytes = softmax_attention::key_panel_bytes(d);
  const std::int64_t end = first + rows;
  const ByteStore store;
  ByteQuad quad;
  for (std::int64_t head = 0; head < shape.num_heads; ++head) {
    std::int8_t* const keys =
        reinterpret_cast<std::int8_t*>(p.keys) + softmax_attention::keys_before(shape, head);
    std::int8_t* const values =
        reinterpret_cast<std::int8_t*>(p.values) + softmax_attention::values_before(shape, head);
    const auto panel_of = [&](std::int64_t token) {
      return keys + token / linear::kPanelColumns * panel_bytes;
    };
    for (std::int64_t token = first; token < end;) {
      quad.lane = token % kQuad;
      quad.count = end - token < kQuad - quad.lane ? end - token : kQuad - quad.lane;
      const std::int64_t at = (token - first) * p.stride + head * d;
      std::int8_t* const panel = panel_of(token);
      put_key_quad(k + at, p.stride, token, d, store, quad, panel);
      put_value_quad(v + at, p.stride, token, shape, store, quad,
                     softmax_attention::numbers_of(panel, d), values);
      token += quad.count;
    }
    if (end == shape.num_tokens) end_panels(shape, panel_of(end), values);
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
