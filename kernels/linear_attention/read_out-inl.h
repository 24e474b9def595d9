// y = a^T S / m of a tile of queries: features of some queries, then their products with the panels
// of S. Tolerance and test: linear_attention.h; on tiles tests/kernels/amx/tiled_attention_test.cpp.
// Included after hwy/highway.h, once per instruction set.
#if defined(HYDRASCOPE_KERNELS_LINEAR_ATTENTION_READ_OUT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_LINEAR_ATTENTION_READ_OUT_INL_H
#undef HYDRASCOPE_KERNELS_LINEAR_ATTENTION_READ_OUT_INL_H
#else
#define HYDRASCOPE_KERNELS_LINEAR_ATTENTION_READ_OUT_INL_H
#endif

#include "kernels/amx/tile_strips-inl.h"
#include "kernels/linear_attention/query_features-inl.h"

#include <cstddef>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

using linear::kPanelColumns;

/// y of a strip of rows: sums / m, rounded.
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

/// Strips: VectorStrips, or TileStrips for bfloat16.
template <class T, class Strips>
void read_out_any(Strips&& strips, const linear_attention::ReadOutParams<T>& p) {
  constexpr int kRows = std::remove_reference_t<Strips>::kRows;
  HWY_ALIGN float sums[kRows * kPanelColumns];
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
        for (std::int64_t r = 0; r < c.rows; r += kRows) {
          const int rows = static_cast<int>(c.rows - r < kRows ? c.rows - r : kRows);
          strips.template multiply<kPanelColumns>(s, rows);
          s.a += kRows * s.row_stride;
          write_strip_of(sums, rows, inverse + r,
                         p.y + (first + r) * p.y_stride + head * d + column, p.y_stride,
                         linear::panel_columns(column, d));
        }
      }
    }
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
