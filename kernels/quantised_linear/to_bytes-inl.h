// Vectors of float32 as bytes. Test: quantised_linear.h. Included after hwy/highway.h, once per
// instruction set.
#if defined(HYDRASCOPE_KERNELS_QUANTISED_LINEAR_TO_BYTES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_QUANTISED_LINEAR_TO_BYTES_INL_H
#undef HYDRASCOPE_KERNELS_QUANTISED_LINEAR_TO_BYTES_INL_H
#else
#define HYDRASCOPE_KERNELS_QUANTISED_LINEAR_TO_BYTES_INL_H
#endif

#include "kernels/vector/vector_io-inl.h"

#include <cstddef>
#include <cstdint>
#if HYDRASCOPE_HAS_AVX2
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// The nearest integers of values that fit int32; of others any number.
HWY_INLINE hn::Vec<hn::ScalableTag<std::int32_t>> nearest(VecF32 v) {
  // On x86 NearestInt mends overflows in four more instructions.
#if HYDRASCOPE_HAS_AVX512
  return {_mm512_cvtps_epi32(v.raw)};
#elif HYDRASCOPE_HAS_AVX2
  return {_mm256_cvtps_epi32(v.raw)};
#else
  return hn::NearestInt(v);
#endif
}

#if HYDRASCOPE_HAS_AVX2
/// Demotion of four vectors puts their blocks of 16 bytes in turns; this puts them in order.
HWY_INLINE auto order_of_demoted() {
  const hn::ScalableTag<std::int32_t> d;
  const std::size_t n = hn::Lanes(d);
  HWY_ALIGN std::int32_t places[hn::MaxLanes(d)];
  for (std::size_t j = 0; j < n; ++j)
    places[j] = static_cast<std::int32_t>(j % (n / 4) * 4 + j / (n / 4));
  return hn::SetTableIndices(d, places);
}
#endif

/// Stores four vectors of int32, one after the other, as uint8 with saturation.
class ByteStore {
  using I32 = hn::ScalableTag<std::int32_t>;
  using U8 = hn::ScalableTag<std::uint8_t>;
  using VecI32 = hn::Vec<I32>;

 public:
#if HYDRASCOPE_HAS_AVX2
  HWY_INLINE ByteStore() : in_order_(order_of_demoted()) {}
  HWY_INLINE void operator()(VecI32 a, VecI32 b, VecI32 c, VecI32 e, std::uint8_t* to) const {
    const hn::ScalableTag<std::int16_t> d16;
    const auto first = hn::ReorderDemote2To(d16, a, b);
    const auto second = hn::ReorderDemote2To(d16, c, e);
#if HYDRASCOPE_HAS_AVX512
    const VecI32 bytes{_mm512_packus_epi16(first.raw, second.raw)};
#else
    const VecI32 bytes{_mm256_packus_epi16(first.raw, second.raw)};
#endif
    hn::StoreU(hn::BitCast(U8(), hn::TableLookupLanes(bytes, in_order_)), U8(), to);
  }

 private:
  decltype(order_of_demoted()) in_order_;
#else
  HWY_INLINE void operator()(VecI32 a, VecI32 b, VecI32 c, VecI32 e, std::uint8_t* to) const {
    const hn::Rebind<std::uint8_t, I32> d8;
    const std::size_t n = hn::Lanes(I32());
    hn::StoreU(hn::DemoteTo(d8, a), d8, to);
    hn::StoreU(hn::DemoteTo(d8, b), d8, to + n);
    hn::StoreU(hn::DemoteTo(d8, c), d8, to + 2 * n);
    hn::StoreU(hn::DemoteTo(d8, e), d8, to + 3 * n);
  }
#endif
};

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
