// Keys and values of attention as panels (kernels/linear/panel.h):
//   keys    a panel is 64 keys by d: column score_column<T>(j) is key j, zeros after the last key
//   values  a panel is 64 columns of d by all tokens, zeros after the last column
// Elements are copied as they are. Test: softmax_attention.h.
// Included after hwy/highway.h, once per instruction set.
#if defined(HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_PACK_INL_H
#undef HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_PACK_INL_H
#else
#define HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_PACK_INL_H
#endif

#include "kernels/linear/pack_rows-inl.h"
#include "kernels/linear/panel.h"
#include "kernels/linear/transpose-inl.h"
#include "kernels/softmax_attention/softmax_attention.h"
#include "kernels/softmax_attention/weights-inl.h"
#include "kernels/vector/vector_io-inl.h"

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// Elements of T in one step of a panel: 32 bits of bfloat16, 32 bits of float.
template <class T>
constexpr std::int64_t kStep = sizeof(T) == 2 ? 2 : 1;

HWY_INLINE std::uint32_t word_of(const void* p) {
  std::uint32_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

/// Packs one key to `panel`, the first step's word in the key's column.
template <class T>
HWY_INLINE void put_key(const T* key, std::int64_t head_dim, std::uint32_t* panel) {
  std::int64_t i = 0;
  for (; i + kStep<T> <= head_dim; i += kStep<T>, panel += linear::kPanelColumns)
    *panel = word_of(key + i);
  if constexpr (sizeof(T) == 2) {
    if (i < head_dim) *panel = key[i].bits;
  }
}

#if HWY_TARGET != HWY_SCALAR
/// Packs four keys, `stride` apart, to four columns side by side: 4 x 4 words at a time.
template <class T>
HWY_INLINE void put_four_keys(const T* key, std::int64_t stride, std::int64_t head_dim,
                              std::uint32_t* panel) {
  std::int64_t i = 0;
  for (; i + 4 * kStep<T> <= head_dim; i += 4 * kStep<T>, panel += 4 * linear::kPanelColumns) {
    transpose_words(key + i, stride * static_cast<std::int64_t>(sizeof(T)), panel,
                    linear::kPanelColumns);
  }
  if (i < head_dim) {
    for (int j = 0; j < 4; ++j) put_key(key + j * stride + i, head_dim - i, panel + j);
  }
}
#endif

/// Packs the keys of one head. `keys`: the head's first panel.
template <class T>
HWY_INLINE void pack_keys(const T* k, std::int64_t stride, std::int64_t first, std::int64_t rows,
                          const softmax_attention::Shape& shape, T* keys) {
  const std::int64_t panel_words = linear::panel_size<T>(shape.head_dim) / kStep<T>;
  auto* words = reinterpret_cast<std::uint32_t*>(keys);
  const std::int64_t end = first + rows;
  std::int64_t j = first;
  while (j < end) {
    std::uint32_t* panel = words + j / linear::kPanelColumns * panel_words;
    const auto column = static_cast<std::size_t>(j % linear::kPanelColumns);
    const T* key = k + (j - first) * stride;
#if HWY_TARGET != HWY_SCALAR
    if (j % 8 == 0 && j + 8 <= end) {
      // Neighbours in the panel are two keys apart in bfloat16.
      constexpr std::int64_t kKeyStep = kStep<T>;
      constexpr std::int64_t kNextKey = sizeof(T) == 2 ? 1 : 4;
      put_four_keys(key, kKeyStep * stride, shape.head_dim, panel + score_column<T>(column));
      put_four_keys(key + kNextKey * stride, kKeyStep * stride, shape.head_dim,
                    panel + score_column<T>(column + kNextKey));
      j += 8;
      continue;
    }
#endif
    put_key(key, shape.head_dim, panel + score_column<T>(column));
    ++j;
  }
  if (end == shape.num_tokens && end % linear::kPanelColumns != 0) {
    std::uint32_t* panel = words + end / linear::kPanelColumns * panel_words;
    for (std::int64_t w = 0; w < panel_words; w += linear::kPanelColumns)
      for (auto c = static_cast<std::size_t>(end % linear::kPanelColumns); c < kAllColumns; ++c)
        panel[static_cast<std::size_t>(w) + score_column<T>(c)] = 0;
  }
}

/// Tokens whose heads are packed one after the other while their rows are in L1. A multiple of the
/// groups that columns of keys are ordered in: whole cache lines of the panels are written.
constexpr std::int64_t kPackTokens = 32;

template <class T>
HWY_INLINE void pack_tokens(const T* k, const T* v, std::int64_t first, std::int64_t rows,
                            const softmax_attention::PackParams<T>& p) {
  const std::int64_t d = p.shape.head_dim;
  const std::int64_t key_panels = linear::panels_of(p.shape.num_tokens);
  T* values = p.values;
  for (std::int64_t head = 0; head < p.shape.num_heads; ++head) {
    pack_keys(k + head * d, p.stride, first, rows, p.shape,
              p.keys + head * key_panels * linear::panel_size<T>(d));
    for (std::int64_t column = 0; column < d; column += linear::kPanelColumns) {
      pack_rows(v + head * d + column, p.stride, first, rows, p.shape.num_tokens,
                static_cast<std::size_t>(linear::panel_columns(column, d)), values);
      values += linear::panel_size<T>(p.shape.num_tokens);
    }
  }
}

/// tokens(k, v, first, rows): packs the rows of k and v as the tokens from `first` on.
template <class T, class Tokens>
HWY_INLINE void pack_by(const softmax_attention::PackParams<T>& p, const Tokens& tokens) {
  const std::int64_t width = p.shape.num_heads * p.shape.head_dim;
  for (std::int64_t row = 0; row < p.rows;) {
    const std::int64_t first = p.first + row;
    const std::int64_t whole = kPackTokens - first % kPackTokens;
    const std::int64_t rows = p.rows - row < whole ? p.rows - row : whole;
    // Heads read parts of rows that lie far apart, which the processor does not foresee.
    for (std::int64_t r = row + rows; r < row + rows + kPackTokens && r < p.rows; ++r) {
      prefetch_row(p.k + r * p.stride, width);
      prefetch_row(p.v + r * p.stride, width);
    }
    tokens(p.k + row * p.stride, p.v + row * p.stride, first, rows);
    row += rows;
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
