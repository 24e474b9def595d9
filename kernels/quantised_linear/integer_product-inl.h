// The micro-kernels of quantised products: C (rows, 64) = A (rows, depth) * panel, or the first columns
// of it, A in uint8, the panel in int8, C in int32. Sums are exact. A step is four k.
//   integer_product   panel[k / 4][64][4]: vpdpbusd, four products per lane (AVX512_VNNI, AVX-VNNI), six
//                     rows by four vectors of 16 sums or by two of 8; elsewhere scalars,
//                     or NEON: two multiply-adds of int16 pairs
//   paired_product    panels of paired_panels.h: vpmaddubsw, two products per int16, vpmaddwd with ones
//                     and an addition, three rows (AVX-512: six) by 16 sums. 32 products so take three
//                     instructions where float32 takes four, and Intel's processors with AVX2 do the
//                     third on a port that multiplies nothing: at most twice float32's products there.
// Test: quantised_linear.h. Included after hwy/highway.h, once per instruction set.
#if defined(HYDRASCOPE_KERNELS_QUANTISED_LINEAR_INTEGER_PRODUCT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_QUANTISED_LINEAR_INTEGER_PRODUCT_INL_H
#undef HYDRASCOPE_KERNELS_QUANTISED_LINEAR_INTEGER_PRODUCT_INL_H
#else
#define HYDRASCOPE_KERNELS_QUANTISED_LINEAR_INTEGER_PRODUCT_INL_H
#endif

#include "kernels/device/matrix_instructions.h"
#include "kernels/linear/panel.h"
#include "kernels/quantised_linear/paired_panels.h"
#include "kernels/vector/vector_io-inl.h"

#include <cstring>
#undef HYDRASCOPE_MULTIPLIES_BYTES
#if HYDRASCOPE_HAS_AVX2
#define HYDRASCOPE_MULTIPLIES_BYTES 1  // by vpdpbusd or vpmaddubsw
#include <immintrin.h>
#else
#define HYDRASCOPE_MULTIPLIES_BYTES 0
#endif

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// The depth is filled up to a multiple of four, with zeros in the rows or in the panel.
struct IntegerStrip {
  const std::uint8_t* a;
  std::int64_t row_stride;
  std::int64_t steps;
  const std::int8_t* panel;
  std::int32_t* c;  ///< (rows, 64)
};

template <int kRows, std::size_t kColumns>
void integer_strip_of_scalars(const IntegerStrip& s) {
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t column = 0; column < static_cast<std::int64_t>(kColumns); ++column) {
      std::int32_t sum = 0;
      for (std::int64_t step = 0; step < s.steps; ++step)
        for (std::int64_t i = 0; i < 4; ++i)
          sum += s.a[r * s.row_stride + step * 4 + i] *
                 s.panel[(step * linear::kPanelColumns + column) * 4 + i];
      s.c[r * linear::kPanelColumns + column] = sum;
    }
  }
}

#if HWY_TARGET == HWY_SCALAR
template <int kRows, std::size_t kColumns>
void integer_strip(const IntegerStrip& s) {
  integer_strip_of_scalars<kRows, kColumns>(s);
}
#else
using I32 = hn::ScalableTag<std::int32_t>;
using VecI32 = hn::Vec<I32>;

#if !HYDRASCOPE_MULTIPLIES_BYTES
/// Pairs of int16: bytes 0 and 2 of a column in one product, 1 and 3 in the other.
template <int kRows>
HWY_INLINE void integer_strip_of_words(const IntegerStrip& s, std::size_t column) {
  const I32 d32;
  const hn::ScalableTag<std::int16_t> d16;
  const hn::ScalableTag<std::uint16_t> du16;
  VecI32 sums[kRows];
  VecI32 upper[kRows];
  for (int r = 0; r < kRows; ++r) sums[r] = upper[r] = hn::Zero(d32);
  const auto* panel = reinterpret_cast<const std::int32_t*>(s.panel) + column;
  const std::uint8_t* a = s.a;
  const auto low = hn::Set(du16, 0xff);
  for (std::int64_t step = 0; step < s.steps; ++step, panel += linear::kPanelColumns, a += 4) {
    const auto bytes = hn::BitCast(d16, hn::LoadU(d32, panel));
    const auto odd = hn::ShiftRight<8>(bytes);
    const auto even = hn::ShiftRight<8>(hn::ShiftLeft<8>(bytes));
    for (int r = 0; r < kRows; ++r) {
      std::int32_t quad;
      std::memcpy(&quad, a + r * s.row_stride, sizeof quad);
      const auto x = hn::BitCast(du16, hn::Set(d32, quad));
      sums[r] = hn::ReorderWidenMulAccumulate(d32, hn::BitCast(d16, hn::And(x, low)), even, sums[r],
                                              upper[r]);
      sums[r] = hn::ReorderWidenMulAccumulate(d32, hn::BitCast(d16, hn::ShiftRight<8>(x)), odd,
                                              sums[r], upper[r]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    hn::StoreU(hn::RearrangeToOddPlusEven(sums[r], upper[r]), d32,
               s.c + static_cast<std::size_t>(r) * linear::kPanelColumns + column);
}

template <int kRows, std::size_t kColumns>
void integer_strip(const IntegerStrip& s) {
  for (std::size_t column = 0; column < kColumns; column += lanes())
    integer_strip_of_words<kRows>(s, column);
}
#else
// Vectors of a panel's columns whose sums are in registers at a time.
constexpr std::size_t kIntegerVectors = HYDRASCOPE_HAS_AVX512 ? 4 : 2;

#undef HYDRASCOPE_VNNI
#if HYDRASCOPE_HAS_AVX512
#define HYDRASCOPE_VNNI __attribute__((target("avx512vnni")))
constexpr device::MatrixInstruction kVnni = device::MatrixInstruction::avx512_vnni;
HYDRASCOPE_VNNI HWY_INLINE VecI32 dot_bytes(VecI32 sum, VecI32 a, VecI32 b) {
  return VecI32{_mm512_dpbusd_epi32(sum.raw, a.raw, b.raw)};
}
#else
#define HYDRASCOPE_VNNI __attribute__((target("avxvnni")))
constexpr device::MatrixInstruction kVnni = device::MatrixInstruction::avx_vnni;
HYDRASCOPE_VNNI HWY_INLINE VecI32 dot_bytes(VecI32 sum, VecI32 a, VecI32 b) {
  return VecI32{_mm256_dpbusd_avx_epi32(sum.raw, a.raw, b.raw)};
}
#endif

/// Whether vpdpbusd is there.
HWY_INLINE bool multiplies_bytes() { return device::may_use(kVnni); }

template <int kRows, std::size_t kColumns>
HYDRASCOPE_VNNI inline void integer_strip_of_bytes(const IntegerStrip& s) {
  const I32 d;
  const std::size_t n = hn::Lanes(d);
  constexpr std::size_t kAllVectors = kColumns / (HYDRASCOPE_HAS_AVX512 ? 16 : 8);
  constexpr auto kVectors =
      static_cast<int>(kAllVectors < kIntegerVectors ? kAllVectors : kIntegerVectors);
  for (std::size_t column = 0; column < kColumns; column += kVectors * n) {
    VecI32 sums[kRows][kVectors];
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
    }
    const auto* panel = reinterpret_cast<const std::int32_t*>(s.panel) + column;
    const std::uint8_t* a = s.a;
    for (std::int64_t step = 0; step < s.steps; ++step, panel += linear::kPanelColumns, a += 4) {
      VecI32 b[kVectors];
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v)
        b[v] = hn::LoadU(d, panel + static_cast<std::size_t>(v) * n);
      HWY_UNROLL(8)
      for (int r = 0; r < kRows; ++r) {
        std::int32_t quad;
        std::memcpy(&quad, a + r * s.row_stride, sizeof quad);
        const VecI32 x = hn::Set(d, quad);
        HWY_UNROLL(8)
        for (int v = 0; v < kVectors; ++v) sums[r][v] = dot_bytes(sums[r][v], x, b[v]);
      }
    }
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v)
        hn::StoreU(sums[r][v], d,
                   s.c + static_cast<std::size_t>(r) * linear::kPanelColumns + column +
                       static_cast<std::size_t>(v) * n);
    }
  }
}

template <int kRows, std::size_t kColumns>
void integer_strip(const IntegerStrip& s) {
  if (multiplies_bytes()) return integer_strip_of_bytes<kRows, kColumns>(s);
  integer_strip_of_scalars<kRows, kColumns>(s);
}

// Bytes of a row that are ordered for a group of columns at a time.
constexpr std::int64_t kOrderedBytes = 1024;

/// C (rows, 16) (+)= A * group of columns.
struct PairedStrip {
  const std::uint8_t* a;     ///< in the group's order, rows kOrderedBytes apart
  std::int64_t steps;        ///< even
  const std::int8_t* group;  ///< [step][16][4]
  std::int32_t* c;           ///< rows kPanelColumns apart
  bool accumulate;
};

/// Products of bytes in sums of two, which must fit int16.
HWY_INLINE hn::Vec<hn::ScalableTag<std::int16_t> > dot_pairs(VecI32 a, const std::int8_t* b) {
#if HYDRASCOPE_HAS_AVX512
  return {_mm512_maddubs_epi16(a.raw, _mm512_loadu_si512(b))};
#else
  // Twelve sums and b's two vectors do not fit sixteen registers: the instruction reads b.
  __m256i product;
  asm("vpmaddubsw %2, %1, %0"
      : "=x"(product)
      : "x"(a.raw), "m"(*reinterpret_cast<const __m256i_u*>(b)));
  return {product};
#endif
}

constexpr std::int64_t kPairedStep = 4 * quantised_linear::kPairedColumns;  // bytes of a group

/// sum + a step's products.
HWY_INLINE VecI32 add_pairs(VecI32 sum, VecI32 a, const std::int8_t* b) {
  VecI32 unused = a;  // on x86 the first sum takes both products of a pair
  return hn::ReorderWidenMulAccumulate(I32(), dot_pairs(a, b),
                                       hn::Set(hn::ScalableTag<std::int16_t>(), 1), sum, unused);
}

/// Four k of a row, in all lanes.
HWY_INLINE VecI32 four_bytes(const std::uint8_t* a) {
  std::int32_t quad;
  std::memcpy(&quad, a, sizeof quad);
  return hn::Set(I32(), quad);
}

template <int kRows>
void paired_strip(const PairedStrip& s) {
  const I32 d;
  const std::size_t n = hn::Lanes(d);
  constexpr std::size_t kVectors = HYDRASCOPE_HAS_AVX512 ? 1 : 2;
  const auto c = [&](std::size_t r, std::size_t v) {
    return s.c + r * linear::kPanelColumns + v * n;
  };
  VecI32 sums[kRows][kVectors];
  HWY_UNROLL(8)
  for (std::size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < kVectors; ++v)
      sums[r][v] = s.accumulate ? hn::LoadU(d, c(r, v)) : hn::Zero(d);
  }
  const std::uint8_t* a = s.a;
  const std::int8_t* b = s.group;
  for (std::int64_t i = 0; i < s.steps; i += 2, a += 8, b += 2 * kPairedStep) {
    HWY_UNROLL(8)
    for (std::size_t step = 0; step < 2; ++step) {
      HWY_UNROLL(8)
      for (std::size_t r = 0; r < kRows; ++r) {
        const VecI32 x = four_bytes(a + r * kOrderedBytes + 4 * step);
        HWY_UNROLL(8)
        for (std::size_t v = 0; v < kVectors; ++v)
          sums[r][v] = add_pairs(sums[r][v], x, b + step * kPairedStep + v * 4 * n);
      }
    }
  }
  HWY_UNROLL(8)
  for (std::size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], d, c(r, v));
  }
}

// Rows at a time. AVX2's loop is a quarter slower with all six, although their sums fit its registers.
constexpr int kPairedRows = HYDRASCOPE_HAS_AVX512 ? linear::kStripRows : linear::kStripRows / 2;

HWY_INLINE void paired_strip(PairedStrip s, int rows) {
  for (; rows >= kPairedRows; rows -= kPairedRows) {
    paired_strip<kPairedRows>(s);
    s.a += kPairedRows * kOrderedBytes;
    s.c += kPairedRows * linear::kPanelColumns;
  }
  switch (rows) {
    case 1: return paired_strip<1>(s);
    case 2: return paired_strip<2>(s);
    case 3: return paired_strip<3>(s);
    case 4: return paired_strip<4>(s);
    case 5: return paired_strip<5>(s);
    default: return;
  }
}

/// Rows' bytes in a group's order; `count`: a multiple of 64.
HWY_INLINE void order_bytes(const std::uint8_t* a, std::int64_t stride, int rows,
                            const std::uint8_t* order, std::int64_t count, std::uint8_t* to) {
  const hn::ScalableTag<std::uint8_t> d;
  const auto order_row = [&](std::int64_t i, int r, auto places) HWY_ATTR {
    hn::Store(hn::TableLookupBytes(hn::LoadU(d, a + r * stride + i), places), d,
              to + r * kOrderedBytes + i);
  };
  for (std::int64_t i = 0; i < count; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    const auto places = hn::LoadU(d, order + i);
    if (HWY_LIKELY(rows == linear::kStripRows)) {
      HWY_UNROLL(8)
      for (int r = 0; r < linear::kStripRows; ++r) order_row(i, r, places);
    } else {
      for (int r = 0; r < rows; ++r) order_row(i, r, places);
    }
  }
}

/// C (rows, 16) += A * what the pairs of one step left. Rare.
HWY_INLINE void add_excess(const std::uint8_t* a, int rows, const std::int8_t* excess,
                           std::int32_t* c) {
  const I32 d;
  const std::size_t n = hn::Lanes(d);
  for (int r = 0; r < rows; ++r, a += kOrderedBytes, c += linear::kPanelColumns)
    for (std::size_t i = 0; i < quantised_linear::kPairedColumns; i += n)
      hn::StoreU(add_pairs(hn::LoadU(d, c + i), four_bytes(a), excess + 4 * i), d, c + i);
}

/// C (rows, 64) = A * the panel's four groups; at most linear::kStripRows rows of `bytes` bytes.
HWY_INLINE void paired_product(const std::uint8_t* a, std::int64_t bytes,
                               const quantised_linear::PairedPanels& panels, std::int64_t panel,
                               int rows, std::int32_t* c) {
  using quantised_linear::kPairedColumns;
  HWY_ALIGN std::uint8_t ordered[linear::kStripRows * kOrderedBytes];
  constexpr std::int64_t kGroups = linear::kPanelColumns / kPairedColumns;
  for (std::int64_t i = 0; i < kGroups; ++i) {
    const quantised_linear::PairedPanels::Group group = panels.group(panel * kGroups + i);
    std::int32_t* const sums = c + i * kPairedColumns;
    std::int64_t excess = 0;
    for (std::int64_t first = 0; first < bytes; first += kOrderedBytes) {
      const std::int64_t count = bytes - first < kOrderedBytes ? bytes - first : kOrderedBytes;
      order_bytes(a + first, bytes, rows, group.order + first, count, ordered);
      paired_strip(
          PairedStrip{ordered, count / 4, group.values + first * kPairedColumns, sums, first > 0},
          rows);
      for (; excess < group.num_excess; ++excess) {
        const std::int64_t k = 4 * group.excess_steps[excess] - first;
        if (k >= count) break;
        add_excess(ordered + k, rows, group.excess + excess * kPairedStep, sums);
      }
    }
  }
}
#endif  // HYDRASCOPE_MULTIPLIES_BYTES
#endif  // HWY_TARGET == HWY_SCALAR
#if !HYDRASCOPE_MULTIPLIES_BYTES
inline void paired_product(const std::uint8_t*, std::int64_t, const quantised_linear::PairedPanels&,
                           std::int64_t, int, std::int32_t*) {
  HWY_ABORT("a weight of pairs was packed for another target");
}
#endif

/// At most linear::kStripRows rows, and the first kColumns columns: 16, 32 or 64.
template <std::size_t kColumns = linear::kPanelColumns>
HWY_INLINE void integer_product(const IntegerStrip& s, int rows) {
  switch (rows) {
    case 1: return integer_strip<1, kColumns>(s);
    case 2: return integer_strip<2, kColumns>(s);
    case 3: return integer_strip<3, kColumns>(s);
    case 4: return integer_strip<4, kColumns>(s);
    case 5: return integer_strip<5, kColumns>(s);
    default: return integer_strip<linear::kStripRows, kColumns>(s);
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
