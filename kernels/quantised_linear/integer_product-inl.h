// The micro-kernel of quantised products: C (rows, 64) = A (rows, depth) * panel, A in uint8,
// panel[k / 4] [64][4] in int8, C in int32. A step is four k. Shaped as linear/panel_product-inl.h:
// six rows by four vectors. Sums are exact. Test: quantised_linear.h. Included after hwy/highway.h, once
// per instruction set.
#if defined(HYDRASCOPE_KERNELS_QUANTISED_LINEAR_INTEGER_PRODUCT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_QUANTISED_LINEAR_INTEGER_PRODUCT_INL_H
#undef HYDRASCOPE_KERNELS_QUANTISED_LINEAR_INTEGER_PRODUCT_INL_H
#else
#define HYDRASCOPE_KERNELS_QUANTISED_LINEAR_INTEGER_PRODUCT_INL_H
#endif

#include "kernels/device/matrix_instructions.h"
#include "kernels/linear/panel.h"
#include "kernels/vector/vector_io-inl.h"

#include <cstring>
#if HWY_TARGET == HWY_AVX3
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

struct IntegerStrip {
  const std::uint8_t* a;
  std::int64_t row_stride;  ///< a row holds zeros up to the next multiple of four
  std::int64_t steps;
  const std::int8_t* panel;
  std::int32_t* c;  ///< (rows, 64)
};

#if HWY_TARGET == HWY_SCALAR
template <int kRows>
void integer_strip(const IntegerStrip& s) {
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t column = 0; column < linear::kPanelColumns; ++column) {
      std::int32_t sum = 0;
      for (std::int64_t step = 0; step < s.steps; ++step)
        for (std::int64_t i = 0; i < 4; ++i)
          sum += s.a[r * s.row_stride + step * 4 + i] *
                 s.panel[(step * linear::kPanelColumns + column) * 4 + i];
      s.c[r * linear::kPanelColumns + column] = sum;
    }
  }
}
#else
/// Pairs of int16: bytes 0 and 2 of a column in one product, 1 and 3 in the other. (Saturating
/// products of bytes, vpmaddubsw, would clip.)
template <int kRows>
HWY_INLINE void integer_strip_pairs(const IntegerStrip& s, std::size_t column) {
  const hn::ScalableTag<std::int32_t> d32;
  const hn::ScalableTag<std::int16_t> d16;
  const hn::ScalableTag<std::uint16_t> du16;
  using Sum = hn::Vec<decltype(d32)>;
  const std::size_t n = hn::Lanes(d32);
  constexpr std::size_t kVectors = HWY_TARGET == HWY_AVX3 ? 2 : 1;
  Sum sums[kRows][kVectors];
  Sum upper[kRows][kVectors];  // on x86 nothing: the first sum takes both products of a pair
  for (int r = 0; r < kRows; ++r)
    for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = upper[r][v] = hn::Zero(d32);
  const auto* panel = reinterpret_cast<const std::int32_t*>(s.panel) + column;
  const std::uint8_t* a = s.a;
  const auto low = hn::Set(du16, 0xff);
  for (std::int64_t step = 0; step < s.steps; ++step, panel += linear::kPanelColumns, a += 4) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const auto bytes = hn::BitCast(d16, hn::LoadU(d32, panel + v * n));
      const auto odd = hn::ShiftRight<8>(bytes);
      const auto even = hn::ShiftRight<8>(hn::ShiftLeft<8>(bytes));
      for (int r = 0; r < kRows; ++r) {
        std::int32_t quad;
        std::memcpy(&quad, a + r * s.row_stride, sizeof quad);
        const auto x = hn::BitCast(du16, hn::Set(d32, quad));
        sums[r][v] = hn::ReorderWidenMulAccumulate(d32, hn::BitCast(d16, hn::And(x, low)), even,
                                                   sums[r][v], upper[r][v]);
        sums[r][v] = hn::ReorderWidenMulAccumulate(d32, hn::BitCast(d16, hn::ShiftRight<8>(x)), odd,
                                                   sums[r][v], upper[r][v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (std::size_t v = 0; v < kVectors; ++v)
      hn::StoreU(hn::RearrangeToOddPlusEven(sums[r][v], upper[r][v]), d32,
                 s.c + static_cast<std::size_t>(r) * linear::kPanelColumns + column + v * n);
}

#if HWY_TARGET == HWY_AVX3
/// vpdpbusd (AVX512_VNNI): four products per lane and step.
template <int kRows>
__attribute__((target("avx512vnni"))) inline void integer_strip_native(const IntegerStrip& s) {
  __m512i sums[kRows][4];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (int v = 0; v < 4; ++v) sums[r][v] = _mm512_setzero_si512();
  }
  const std::int8_t* panel = s.panel;
  const std::uint8_t* a = s.a;
  for (std::int64_t step = 0; step < s.steps; ++step, panel += 4 * linear::kPanelColumns, a += 4) {
    __m512i b[4];
    HWY_UNROLL(8) for (int v = 0; v < 4; ++v) b[v] = _mm512_loadu_si512(panel + v * 64);
    HWY_UNROLL(8) for (int r = 0; r < kRows; ++r) {
      int quad;
      std::memcpy(&quad, a + r * s.row_stride, sizeof quad);
      const __m512i x = _mm512_set1_epi32(quad);
      HWY_UNROLL(8)
      for (int v = 0; v < 4; ++v) sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], x, b[v]);
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (int v = 0; v < 4; ++v) {
      _mm512_storeu_si512(s.c + r * linear::kPanelColumns + v * 16, sums[r][v]);
    }
  }
}
#endif

template <int kRows>
void integer_strip(const IntegerStrip& s) {
#if HWY_TARGET == HWY_AVX3
  if (device::may_use(device::MatrixInstruction::avx512_vnni))
    return integer_strip_native<kRows>(s);
#endif
  constexpr std::size_t kVectors = HWY_TARGET == HWY_AVX3 ? 2 : 1;
  for (std::size_t column = 0; column < linear::kPanelColumns; column += kVectors * lanes())
    integer_strip_pairs<kRows>(s, column);
}
#endif  // HWY_TARGET == HWY_SCALAR

/// At most linear::kStripRows rows.
HWY_INLINE void integer_product(const IntegerStrip& s, int rows) {
  switch (rows) {
    case 1: return integer_strip<1>(s);
    case 2: return integer_strip<2>(s);
    case 3: return integer_strip<3>(s);
    case 4: return integer_strip<4>(s);
    case 5: return integer_strip<5>(s);
    default: return integer_strip<linear::kStripRows>(s);
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
