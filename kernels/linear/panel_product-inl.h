// The micro-kernel of every matrix product on the CPU: C (rows, 64) (+)= A (rows, depth) * panel,
// where a panel holds 64 columns of the right-hand side, packed for broadcasting A:
//   float32   panel[k][64]                    one step is one k
//   bfloat16  panel[k / 2][64][2]             one step is two k (what vdpbf16ps and AMX read)
// Six rows by four AVX-512 vectors are 24 accumulators, four vectors of the panel and a broadcast:
// 29 of 32 registers, so that 24 multiply-adds stand against 4 loads of the panel from the L2 cache
// and 6 broadcasts. NEON has 32 registers, too, of four columns each: the panel is walked in strips
// of 16 columns, and so it is by AVX2, which has 16 registers of eight. Sums are float32, in the
// order of k. Tolerance, source and test: linear.h. Included after hwy/highway.h, once per
// instruction set.
#if defined(HYDRASCOPE_KERNELS_LINEAR_PANEL_PRODUCT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_LINEAR_PANEL_PRODUCT_INL_H
#undef HYDRASCOPE_KERNELS_LINEAR_PANEL_PRODUCT_INL_H
#else
#define HYDRASCOPE_KERNELS_LINEAR_PANEL_PRODUCT_INL_H
#endif

#include "kernels/device/matrix_instructions.h"
#include "kernels/linear/panel.h"
#include "kernels/vector/vector_io-inl.h"

#include <cstring>
#if HYDRASCOPE_HAS_AVX512
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

using linear::kStripRows;

/// float32: one multiply-add per step.
template <int kRows, std::size_t kVectors>
HWY_INLINE void strip_product(const linear::Strip<float>& s, std::size_t column) {
  const F32 d;
  const std::size_t n = hn::Lanes(d);
  VecF32 sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (std::size_t v = 0; v < kVectors; ++v)
      sums[r][v] = s.accumulate ? hn::LoadU(d, s.c + r * s.c_stride + column + v * n) : hn::Zero(d);
  const float* panel = s.panel + column;
  const float* a = s.a;
  for (std::int64_t k = 0; k < s.depth; ++k, panel += linear::kPanelColumns, a += s.step_stride) {
    VecF32 b[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) b[v] = hn::LoadU(d, panel + v * n);
    for (int r = 0; r < kRows; ++r) {
      const VecF32 x = hn::Set(d, a[r * s.row_stride]);
      for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(x, b[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (std::size_t v = 0; v < kVectors; ++v)
      hn::StoreU(sums[r][v], d, s.c + r * s.c_stride + column + v * n);
}

/// bfloat16 without its instruction: two exact float32 products per step.
template <int kRows, std::size_t kVectors>
HWY_INLINE void strip_product(const linear::Strip<BFloat16>& s, std::size_t column) {
  const F32 d;
  const hn::Rebind<std::uint32_t, F32> d32;
  const std::size_t n = hn::Lanes(d);
  VecF32 sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (std::size_t v = 0; v < kVectors; ++v)
      sums[r][v] = s.accumulate ? hn::LoadU(d, s.c + r * s.c_stride + column + v * n) : hn::Zero(d);
  const auto* panel = reinterpret_cast<const std::uint32_t*>(s.panel) + column;
  const BFloat16* a = s.a;
  const auto high = hn::Set(d32, 0xffff0000U);
  for (std::int64_t k = 0; k < s.depth;
       k += 2, panel += linear::kPanelColumns, a += s.step_stride) {
    const bool whole = k + 1 < s.depth;  // depth is odd: nothing is read after the row's end
    for (std::size_t v = 0; v < kVectors; ++v) {
      const auto pair = hn::LoadU(d32, panel + v * n);
      const VecF32 even = hn::BitCast(d, hn::ShiftLeft<16>(pair));
      const VecF32 odd = hn::BitCast(d, hn::And(pair, high));
      for (int r = 0; r < kRows; ++r) {
        const BFloat16* x = a + r * s.row_stride;
        sums[r][v] = hn::MulAdd(hn::Set(d, static_cast<float>(x[0])), even, sums[r][v]);
        if (whole) sums[r][v] = hn::MulAdd(hn::Set(d, static_cast<float>(x[1])), odd, sums[r][v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (std::size_t v = 0; v < kVectors; ++v)
      hn::StoreU(sums[r][v], d, s.c + r * s.c_stride + column + v * n);
}

#if HYDRASCOPE_HAS_AVX512
/// bfloat16 by vdpbf16ps (AVX512_BF16): two products per lane and step, summed in float32;
/// subnormals count as zero. The pragma unrolls: without it GCC 12 writes all sums to the stack
/// before and after the loop over depth, a ninth of the time at depth 64.
template <int kRows, int kVectors>
__attribute__((target("avx512bf16"))) inline void strip_product_native(
    const linear::Strip<BFloat16>& s) {
  __m512 sums[kRows][kVectors];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] =
          s.accumulate ? _mm512_loadu_ps(s.c + r * s.c_stride + v * 16) : _mm512_setzero_ps();
    }
  }
  const BFloat16* panel = s.panel;
  const BFloat16* a = s.a;
  const std::int64_t pairs = s.depth / 2;
  for (std::int64_t k = 0; k < pairs; ++k, panel += 2 * linear::kPanelColumns, a += s.step_stride) {
    __m512i b[kVectors];
    HWY_UNROLL(8) for (int v = 0; v < kVectors; ++v) b[v] = _mm512_loadu_si512(panel + v * 32);
    HWY_UNROLL(8) for (int r = 0; r < kRows; ++r) {
      int pair;
      std::memcpy(&pair, a + r * s.row_stride, sizeof pair);
      const __m512i x = _mm512_set1_epi32(pair);
      HWY_UNROLL(8)
      for (int v = 0; v < kVectors; ++v)
        sums[r][v] = _mm512_dpbf16_ps(sums[r][v], (__m512bh)x, (__m512bh)b[v]);
    }
  }
  if (s.depth % 2 != 0) {  // the panel is padded with zeros, the row is not
    HWY_UNROLL(8) for (int v = 0; v < kVectors; ++v) {
      const __m512i b = _mm512_loadu_si512(panel + v * 32);
      HWY_UNROLL(8) for (int r = 0; r < kRows; ++r) {
        const __m512i x = _mm512_set1_epi32(a[r * s.row_stride].bits);
        sums[r][v] = _mm512_dpbf16_ps(sums[r][v], (__m512bh)x, (__m512bh)b);
      }
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(s.c + r * s.c_stride + v * 16, sums[r][v]);
  }
}
#endif

template <int kRows, std::size_t kColumns, class T>
void strip_of_rows(const linear::Strip<T>& s) {
#if HYDRASCOPE_HAS_AVX512
  if constexpr (sizeof(T) == 2) {
    if (device::may_use(device::MatrixInstruction::avx512_bf16))
      return strip_product_native<kRows, kColumns / 16>(s);
  }
#endif
  constexpr std::size_t kVectors = HYDRASCOPE_HAS_AVX512 ? kColumns / 16 : (HWY_ARCH_ARM ? 4 : 2);
  for (std::size_t column = 0; column < kColumns; column += kVectors * lanes())
    strip_product<kRows, kVectors>(s, column);
}

/// At most kStripRows rows and the first kColumns columns, 64 or 32.
template <std::size_t kColumns = linear::kPanelColumns, class T>
void strip(const linear::Strip<T>& s, int rows) {
  switch (rows) {
    case 1: return strip_of_rows<1, kColumns>(s);
    case 2: return strip_of_rows<2, kColumns>(s);
    case 3: return strip_of_rows<3, kColumns>(s);
    case 4: return strip_of_rows<4, kColumns>(s);
    case 5: return strip_of_rows<5, kColumns>(s);
    default: return strip_of_rows<kStripRows, kColumns>(s);
  }
}

/// Any number of rows.
template <std::size_t kColumns = linear::kPanelColumns, class T>
void panel_product(linear::Strip<T> s, std::int64_t rows) {
  for (std::int64_t row = 0; row < rows; row += kStripRows) {
    strip<kColumns>(s, static_cast<int>(rows - row < kStripRows ? rows - row : kStripRows));
    s.a += kStripRows * s.row_stride;
    s.c += kStripRows * s.c_stride;
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
