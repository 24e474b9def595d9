// S += b^T v and z += b of a tile of keys, in chunks whose features stay in L1 and L2. Tolerance and
// test: linear_attention.h; on tiles tests/kernels/amx/tiled_attention_test.cpp. Included after
// hwy/highway.h, once per instruction set.
#if defined(HYDRASCOPE_KERNELS_LINEAR_ATTENTION_ACCUMULATE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_LINEAR_ATTENTION_ACCUMULATE_INL_H
#undef HYDRASCOPE_KERNELS_LINEAR_ATTENTION_ACCUMULATE_INL_H
#else
#define HYDRASCOPE_KERNELS_LINEAR_ATTENTION_ACCUMULATE_INL_H
#endif

#include "kernels/amx/tile_strips-inl.h"
#include "kernels/linear/pack_rows-inl.h"
#include "kernels/linear/transpose-inl.h"
#include "kernels/linear_attention/key_features-inl.h"

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

using linear::kPanelColumns;

/// Rows of S whose maximum rose.
template <class T>
HWY_INLINE void rescale(const KeyChunk<T>& c, std::int64_t parts, std::int64_t head_dim, float* s) {
  const auto n = static_cast<std::int64_t>(lanes());
  for (std::int64_t part = 0; part < parts; ++part) {
    for (std::int64_t f = 0; f < c.width; ++f, s += head_dim) {
      const float factor = c.factors[part * c.part_step + f];
      if (factor == 1) continue;
      const VecF32 by = hn::Set(F32(), factor);
      std::int64_t column = 0;
      for (; column + n <= head_dim; column += n) store(hn::Mul(load(s + column), by), s + column);
      for (; column < head_dim; ++column) s[column] *= factor;
    }
  }
}

/// S += b^T v on vectors: the panel's columns to `columns` of C, rows of S in parts of w.
template <class T>
HWY_INLINE void add_products(VectorStrips&, const KeyChunk<T>& c, std::int64_t parts,
                             const BFloat16*, const T* panel, float* to, std::int64_t to_stride,
                             bool accumulate) {
  constexpr std::int64_t kWidth = sizeof(T) == 2 ? 2 : 1;
  const std::int64_t even_rows = (c.rows + kWidth - 1) / kWidth * kWidth;
  linear::Strip<T> strip{c.features, kWidth, c.step * kWidth, even_rows,
                         panel,      to,     to_stride,       accumulate};
  if (c.part_step == c.width) return panel_product(strip, parts * c.width);
  for (std::int64_t part = 0; part < parts; ++part) {
    panel_product(strip, c.width);
    strip.a += c.part_step * kWidth;
    strip.c += c.width * to_stride;
  }
}

/// On tiles, which read a feature's tokens side by side.
template <class Tiles>
HWY_INLINE void add_products(TileStrips<Tiles>& strips, const KeyChunk<BFloat16>& c,
                             std::int64_t parts, const BFloat16* by_feature, const BFloat16* panel,
                             float* to, std::int64_t to_stride, bool accumulate) {
  const std::int64_t stride = linear_attention::tokens_stride(c.rows);
  linear::Strip<BFloat16> strip{by_feature, stride, 2,         (c.rows + 1) / 2 * 2,
                                panel,      to,     to_stride, accumulate};
  const std::int64_t features = parts * c.width;
  for (std::int64_t row = 0; row < features; row += strips.kRows) {
    const std::int64_t left = features - row;
    strips.template multiply<linear::kPanelColumns>(
        strip, static_cast<int>(left < strips.kRows ? left : strips.kRows));
    strip.a += strips.kRows * stride;
    strip.c += strips.kRows * to_stride;
  }
}

/// Nothing is transposed for vectors.
template <class T>
HWY_INLINE void order_by_feature(VectorStrips&, const KeyChunk<T>&, std::int64_t, BFloat16*) {}

/// [token / 2][part][w][2] -> [part][w][token], words of two tokens, 4 x 4 at a time.
template <class Tiles>
HWY_INLINE void order_by_feature(TileStrips<Tiles>&, const KeyChunk<BFloat16>& c,
                                 std::int64_t parts, BFloat16* by_feature) {
  const auto* words = reinterpret_cast<const std::uint32_t*>(c.features);
  auto* to = reinterpret_cast<std::uint32_t*>(by_feature);
  const std::int64_t stride = linear_attention::tokens_stride(c.rows) / 2;
  const std::int64_t pairs = (c.rows + 1) / 2;
  for (std::int64_t part = 0; part < parts; ++part, words += c.part_step) {
    std::int64_t f = 0;
#if HWY_TARGET != HWY_SCALAR
    for (; f + 4 <= c.width; f += 4, to += 4 * stride) {
      std::int64_t pair = 0;
      for (; pair + 4 <= pairs; pair += 4)
        transpose_words(words + pair * c.step + f, 4 * c.step, to + pair, stride);
      for (; pair < pairs; ++pair)
        for (std::int64_t i = 0; i < 4; ++i) to[i * stride + pair] = words[pair * c.step + f + i];
    }
#endif
    for (; f < c.width; ++f, to += stride)
      for (std::int64_t pair = 0; pair < pairs; ++pair) to[pair] = words[pair * c.step + f];
  }
}

// The map is asked once for a chunk: the products around it are compiled once for all maps.
/// Strips: VectorStrips, or TileStrips for bfloat16.
template <class T, class Strips>
void accumulate_any(Strips&& strips, const linear_attention::AccumulateParams<T>& p) {
  const linear_attention::Shape& shape = p.shape;
  const Feature map = shape.rule.feature;
  const linear_attention::KeyScratch<T> scratch(shape, p.rows);
  auto* memory = static_cast<std::byte*>(p.scratch);
  auto* panel = reinterpret_cast<T*>(memory + scratch.panel);
  auto* remainder = reinterpret_cast<float*>(memory + scratch.columns);
  auto* row_values = reinterpret_cast<OfRow*>(memory + scratch.of_token);
  auto* by_feature = reinterpret_cast<BFloat16*>(memory + scratch.by_feature);
  const std::int64_t parts = linear_attention::parts_of(map);
  const std::int64_t d = shape.head_dim;
  for (std::int64_t head = 0; head < shape.num_heads; ++head) {
    const linear_attention::Sums<float> sums = linear_attention::sums_of_head(shape, p.sums, head);
    for (std::int64_t first = 0; first < p.rows; first += scratch.rows) {
      const std::int64_t left = p.rows - first;
      KeyChunk<T> c;
      c.k = p.k + first * p.k_stride + head * shape.width;
      c.stride = p.k_stride;
      c.rows = left < scratch.rows ? left : scratch.rows;
      c.width = shape.width;
      c.num_prefix = p.weights.num_prefix - first;
      c.prefix_weight = static_cast<float>(p.weights.prefix);
      c.patch_weight = static_cast<float>(p.weights.patch);
      c.unit_eps = shape.rule.unit_eps;
      c.of_row = row_values;
      c.features = reinterpret_cast<T*>(memory);
      c.step = linear_attention::key_step(shape);
      c.part_step = linear_attention::padded(shape.width);
      c.z = sums.z;
      c.maximum = sums.maximum;
      c.factors = reinterpret_cast<float*>(memory + scratch.factors);
      with_feature(map, [&](auto feature) { key_features<T, feature>(c); });
      if (linear_attention::is_exponential(map)) rescale(c, parts, d, sums.s);
      order_by_feature(strips, c, parts, by_feature);
      const T* v = p.v + first * p.v_stride + head * d;
      std::int64_t column = 0;
      for (; column + kPanelColumns <= d; column += kPanelColumns) {
        pack_rows(v + column, p.v_stride, 0, c.rows, c.rows, kAllColumns, panel);
        add_products(strips, c, parts, by_feature, panel, sums.s + column, d, true);
      }
      if (column == d) continue;
      // The product writes 64 columns: a narrower rest goes through memory of its own.
      pack_rows(v + column, p.v_stride, 0, c.rows, c.rows, static_cast<std::size_t>(d - column),
                panel);
      add_products(strips, c, parts, by_feature, panel, remainder, kPanelColumns, false);
      for (std::int64_t f = 0; f < parts * c.width; ++f)
        for (std::int64_t i = column; i < d; ++i)
          sums.s[f * d + i] += remainder[f * kPanelColumns + i - column];
    }
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
