#include "kernels/linear_attention/linear_attention.h"

#include "kernels/vector/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear_attention/linear_attention.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/linear/pack_rows-inl.h"
#include "kernels/linear/panel_product-inl.h"
#include "kernels/linear_attention/combine-inl.h"
#include "kernels/linear_attention/key_features-inl.h"
#include "kernels/linear_attention/query_features-inl.h"

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

/// S += b^T v: the panel's columns to `columns` of C, rows of S in parts of w.
template <class T>
HWY_INLINE void add_products(const KeyChunk<T>& c, std::int64_t parts, const T* panel, float* to,
                             std::int64_t to_stride, bool accumulate) {
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

// The map is asked once for a chunk: the products around it are compiled once for all maps.
template <class T>
void accumulate_any(const linear_attention::AccumulateParams<T>& p) {
  const linear_attention::Shape& shape = p.shape;
  const Feature map = shape.rule.feature;
  const linear_attention::KeyScratch<T> scratch(shape, p.rows);
  auto* memory = static_cast<std::byte*>(p.scratch);
  auto* panel = reinterpret_cast<T*>(memory + scratch.panel);
  auto* remainder = reinterpret_cast<float*>(memory + scratch.columns);
  auto* row_values = reinterpret_cast<OfRow*>(memory + scratch.of_token);
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
      const T* v = p.v + first * p.v_stride + head * d;
      std::int64_t column = 0;
      for (; column + kPanelColumns <= d; column += kPanelColumns) {
        pack_rows(v + column, p.v_stride, 0, c.rows, c.rows, kAllColumns, panel);
        add_products(c, parts, panel, sums.s + column, d, true);
      }
      if (column == d) continue;
      // The product writes 64 columns: a narrower rest goes through memory of its own.
      pack_rows(v + column, p.v_stride, 0, c.rows, c.rows, static_cast<std::size_t>(d - column),
                panel);
      add_products(c, parts, panel, remainder, kPanelColumns, false);
      for (std::int64_t f = 0; f < parts * c.width; ++f)
        for (std::int64_t i = column; i < d; ++i)
          sums.s[f * d + i] += remainder[f * kPanelColumns + i - column];
    }
  }
}

/// y of a strip of at most six rows: sums / m, rounded.
template <class T>
HWY_INLINE void write_strip_of(const float* sums, int rows, const float* inverse, T* y,
                               std::int64_t stride, std::int64_t columns) {
  const auto step = static_cast<std::int64_t>(2 * lanes());
  for (int r = 0; r < rows; ++r, sums += kPanelColumns, y += stride) {
    const VecF32 by = hn::Set(F32(), inverse[r]);
    std::int64_t c = 0;
    for (; c + step <= columns; c += step) {
      const Pair sum = load_pair_as<T>(sums + c);
      store_pair({hn::Mul(sum.first, by), hn::Mul(sum.second, by)}, y + c);
    }
    if (c == columns) continue;
    PairTail<T> tail(y, 0);
    const Pair sum = load_pair_as<T>(sums + c);
    store_pair({hn::Mul(sum.first, by), hn::Mul(sum.second, by)}, tail.values);
    tail.give(y + c, static_cast<std::size_t>(columns - c));
  }
}

template <class T>
void read_out_any(const linear_attention::ReadOutParams<T>& p) {
  HWY_ALIGN float sums[kStripRows * kPanelColumns];
  const linear_attention::Shape& shape = p.shape;
  const linear_attention::HeadState<T> layout(shape);
  const linear_attention::Halves halves(shape);
  const linear_attention::QueryScratch<T> scratch(shape);
  auto* memory = static_cast<std::byte*>(p.scratch);
  auto* row_values = reinterpret_cast<OfRow*>(memory + scratch.of_token);
  auto* inverse = reinterpret_cast<float*>(row_values + linear_attention::kQueryRows);
  const std::int64_t d = shape.head_dim;
  for (std::int64_t head = 0; head < shape.num_heads; ++head) {
    const std::byte* state =
        static_cast<const std::byte*>(p.state) + static_cast<std::size_t>(head) * layout.bytes;
    const T* panels = reinterpret_cast<const T*>(state);
    for (std::int64_t first = 0; first < p.rows; first += linear_attention::kQueryRows) {
      const std::int64_t left = p.rows - first;
      QueryChunk<T> c;
      c.q = p.q + first * p.q_stride + head * shape.width;
      c.stride = p.q_stride;
      c.rows = left < linear_attention::kQueryRows ? left : linear_attention::kQueryRows;
      c.width = shape.width;
      c.half = halves.half;
      c.padded = halves.stride;
      c.rule = shape.rule;
      c.z = reinterpret_cast<const float*>(state + layout.z);
      c.maximum = reinterpret_cast<const float*>(state + layout.maximum);
      c.features = reinterpret_cast<T*>(memory);
      c.of_row = row_values;
      c.inverse = inverse;
      with_feature(shape.rule.feature, [&](auto feature) { query_features<T, feature>(c); });
      const std::int64_t depth =
          sizeof(T) == 2 ? 2 * halves.half : halves.stride + shape.features() - halves.half;
      for (std::int64_t column = 0; column < d; column += kPanelColumns) {
        linear::Strip<T> s{c.features,
                           2 * halves.stride,
                           sizeof(T) == 2 ? 2 : 1,
                           depth,
                           panels + column / kPanelColumns * layout.panel,
                           sums,
                           kPanelColumns,
                           false};
        for (std::int64_t r = 0; r < c.rows; r += kStripRows) {
          const int rows = static_cast<int>(c.rows - r < kStripRows ? c.rows - r : kStripRows);
          strip(s, rows);
          s.a += kStripRows * s.row_stride;
          write_strip_of(sums, rows, inverse + r,
                         p.y + (first + r) * p.y_stride + head * d + column, p.y_stride,
                         linear::panel_columns(column, d));
        }
      }
    }
  }
}

HYDRASCOPE_STORED_KERNELS(linear_attention_accumulate, accumulate_any,
                          linear_attention::AccumulateParams)
HYDRASCOPE_STORED_KERNELS(linear_attention_read_out, read_out_any, linear_attention::ReadOutParams)
HYDRASCOPE_STORED_KERNELS(linear_attention_combine, combine_heads, linear_attention::CombineParams)

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

namespace hydrascope::kernels::linear_attention {

std::size_t sums_size(const Shape& shape) {
  return static_cast<std::size_t>(shape.num_heads * shape.features() * (shape.head_dim + 2));
}

void clear(const Shape& shape, float* sums) {
  float* maximum = sums_of_head(shape, sums, 0).maximum;
  std::fill(sums, maximum, 0.0F);
  std::fill_n(maximum, shape.num_heads * shape.features(), -std::numeric_limits<float>::infinity());
}

template <class T>
std::size_t scratch_bytes(const Shape& shape, std::int64_t rows) {
  // A shorter tile may be cut into longer chunks: the longest chunk for `rows` counts.
  return std::max(KeyScratch<T>(shape, std::min(rows, kKeyRows)).bytes,
                  QueryScratch<T>(shape).bytes);
}
template std::size_t scratch_bytes<float>(const Shape&, std::int64_t);
template std::size_t scratch_bytes<BFloat16>(const Shape&, std::int64_t);

template <class T>
std::size_t state_bytes(const Shape& shape) {
  return static_cast<std::size_t>(shape.num_heads) * HeadState<T>(shape).bytes;
}
template std::size_t state_bytes<float>(const Shape&);
template std::size_t state_bytes<BFloat16>(const Shape&);

HYDRASCOPE_DISPATCH(accumulate, linear_attention_accumulate, AccumulateParams)
HYDRASCOPE_DISPATCH(combine, linear_attention_combine, CombineParams)
HYDRASCOPE_DISPATCH(read_out, linear_attention_read_out, ReadOutParams)

}  // namespace hydrascope::kernels::linear_attention
#endif  // HWY_ONCE
