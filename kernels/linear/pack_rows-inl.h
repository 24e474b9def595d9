// Rows of a matrix as rows of one panel (panel.h), zeros behind the last column. Elements are copied
// as they are. Tests: softmax_attention.h and linear_attention.h. Included after hwy/highway.h, once per
// instruction set.
#if defined(HYDRASCOPE_KERNELS_LINEAR_PACK_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_LINEAR_PACK_ROWS_INL_H
#undef HYDRASCOPE_KERNELS_LINEAR_PACK_ROWS_INL_H
#else
#define HYDRASCOPE_KERNELS_LINEAR_PACK_ROWS_INL_H
#endif

#include "kernels/linear/panel.h"
#include "kernels/vector/vector_io-inl.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

constexpr std::size_t kAllColumns = linear::kPanelColumns;

/// Writes one row of a panel of float32.
HWY_INLINE void put_rows(const float* row, std::size_t columns, float* to) {
  std::memcpy(to, row, columns * sizeof(float));
  if (columns < kAllColumns) std::memset(to + columns, 0, (kAllColumns - columns) * sizeof(float));
}

/// Writes one pair of rows of a panel of bfloat16.
HWY_INLINE void put_rows(const BFloat16* even, const BFloat16* odd, std::size_t columns,
                         BFloat16* to) {
  const hn::Rebind<std::uint16_t, F32> d16;
  const hn::Rebind<std::uint32_t, F32> d32;
  const std::size_t n = hn::Lanes(d32);
  std::size_t c = 0;
  for (; c + n <= columns; c += n) {
    const auto low = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(even + c));
    const auto high = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(odd + c));
    const auto pairs = hn::Or(hn::PromoteTo(d32, low), hn::ShiftLeft<16>(hn::PromoteTo(d32, high)));
    hn::StoreU(pairs, d32, reinterpret_cast<std::uint32_t*>(to) + c);
  }
  for (; c < columns; ++c) {
    to[2 * c] = even[c];
    to[2 * c + 1] = odd[c];
  }
  for (; c < kAllColumns; ++c) to[2 * c] = to[2 * c + 1] = BFloat16{};
}

/// Packs `rows` rows of v (stride apart), from row `first` of the panel's `all` rows on. v: the panel's
/// first column in the first of them; `panel`: row 0. The last row of an odd number of bfloat16 rows is
/// joined by zeros.
HWY_INLINE void pack_rows(const float* v, std::int64_t stride, std::int64_t first,
                          std::int64_t rows, std::int64_t /*all*/, std::size_t columns,
                          float* panel) {
  panel += first * linear::kPanelColumns;
  for (std::int64_t r = 0; r < rows; ++r, v += stride, panel += linear::kPanelColumns)
    put_rows(v, columns, panel);
}

HWY_INLINE void pack_rows(const BFloat16* v, std::int64_t stride, std::int64_t first,
                          std::int64_t rows, std::int64_t all, std::size_t columns,
                          BFloat16* panel) {
  const std::int64_t end = first + rows;
  for (std::int64_t j = first; j < end;) {
    BFloat16* pair = panel + j / 2 * 2 * linear::kPanelColumns;
    if (j % 2 == 0 && j + 2 <= end) {
      put_rows(v, v + stride, columns, pair);
      v += 2 * stride;
      j += 2;
    } else {  // a tile of other rows fills the other half, or there is none
      const bool last = j % 2 == 0 && j + 1 == all;
      for (std::size_t c = 0; c < kAllColumns; ++c) {
        pair[2 * c + static_cast<std::size_t>(j % 2)] = c < columns ? v[c] : BFloat16{};
        if (last) pair[2 * c + 1] = BFloat16{};
      }
      v += stride;
      ++j;
    }
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
