// Conversions of one contiguous run between storage types, for kernels whose inner loop they are.
// A run is short and no multiple of a vector (a line of a patch: 42 or 48 bytes), so its tail goes
// through vectors of half the size, then a quarter, down to one lane: nothing is read or written
// outside, nothing twice (a run may be converted in place where the sizes agree), no scalar loop.
// Included after hwy/highway.h, once per instruction set.
#if defined(HYDRASCOPE_KERNELS_CONVERT_CONVERT_RUN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_CONVERT_CONVERT_RUN_INL_H
#undef HYDRASCOPE_KERNELS_CONVERT_CONVERT_RUN_INL_H
#else
#define HYDRASCOPE_KERNELS_CONVERT_CONVERT_RUN_INL_H
#endif

#include "kernels/vector/vector_io-inl.h"

#include <bit>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

template <class D>
HWY_INLINE void convert_lanes(D d, const float* from, float* to) {
  hn::StoreU(hn::LoadU(d, from), d, to);
}

/// To nearest, ties to even, as BFloat16(float) does.
template <class D>
HWY_INLINE void convert_lanes(D d, const float* from, BFloat16* to) {
  const hn::Rebind<std::uint32_t, D> d32;
  const hn::Rebind<std::int32_t, D> di32;
  const hn::Rebind<std::uint16_t, D> d16;
  const auto value = hn::LoadU(d, from);
  const auto word = hn::BitCast(d32, value);
  const auto odd = hn::And(hn::ShiftRight<16>(word), hn::Set(d32, 1));
  const auto rounded = hn::Add(word, hn::Add(odd, hn::Set(d32, 0x7fff)));
  const auto quiet = hn::Or(word, hn::Set(d32, 0x00400000));
  const auto chosen = hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(value)), quiet, rounded);
  // Values below 2^16: the saturating demotion is exact.
  const auto high = hn::BitCast(di32, hn::ShiftRight<16>(chosen));
  hn::StoreU(hn::DemoteTo(d16, high), d16, reinterpret_cast<std::uint16_t*>(to));
}

template <class D>
HWY_INLINE void convert_lanes(D d, const BFloat16* from, float* to) {
  const hn::Rebind<std::uint32_t, D> d32;
  const hn::Rebind<std::uint16_t, D> d16;
  const auto half = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(from));
  hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, half))), d, to);
}

template <class D>
HWY_INLINE void convert_lanes(D d, const std::uint8_t* from, float* to) {
  const hn::Rebind<std::int32_t, D> di32;
  const hn::Rebind<std::uint8_t, D> d8;
  hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(di32, hn::LoadU(d8, from))), d, to);
}

/// Exact without rounding: eight bits fit in bfloat16's fraction.
template <class D>
HWY_INLINE void convert_lanes(D d, const std::uint8_t* from, BFloat16* to) {
  const hn::Rebind<std::int32_t, D> di32;
  const hn::Rebind<std::uint8_t, D> d8;
  const hn::Rebind<std::uint16_t, D> d16;
  const auto value = hn::ConvertTo(d, hn::PromoteTo(di32, hn::LoadU(d8, from)));
  const auto high = hn::ShiftRight<16>(hn::BitCast(di32, value));
  hn::StoreU(hn::DemoteTo(d16, high), d16, reinterpret_cast<std::uint16_t*>(to));
}

// Half precision, as std::uint16_t. F16C rounds as it is told to (nearest even), keeps subnormals
// and quietens NaN.
#if HWY_TARGET == HWY_SCALAR
// Highway's own scalar demotion truncates and makes infinity of a NaN, so these are integers.

template <class D>
HWY_INLINE void convert_lanes(D, const float* from, std::uint16_t* to) {
  const auto word = std::bit_cast<std::uint32_t>(*from);
  const std::uint32_t sign = word >> 16 & 0x8000U;
  const std::uint32_t size = word & 0x7fffffffU;
  std::uint32_t half = 0;
  if (size > 0x7f800000U) {
    half = 0x7e00U | (size >> 13 & 0x3ffU);
  } else if (size >= 0x47800000U) {  // 2^16 and above; what rounds up to it carries below
    half = 0x7c00U;
  } else if (size >= 0x38800000U) {  // 2^-14, the smallest normal number
    half = (size + 0xfffU + (size >> 13 & 1U) - (112U << 23)) >> 13;
  } else if (size >= 0x33000000U) {  // 2^-25, half of the smallest subnormal number
    const std::uint32_t fraction = (size & 0x7fffffU) | 0x800000U;
    const std::uint32_t shift = 126U - (size >> 23);
    const std::uint32_t below_half = (1U << (shift - 1)) - 1U;
    half = (fraction + below_half + (fraction >> shift & 1U)) >> shift;
  }
  *to = static_cast<std::uint16_t>(sign | half);
}

template <class D>
HWY_INLINE void convert_lanes(D, const std::uint16_t* from, float* to) {
  const std::uint32_t sign = (*from & 0x8000U) << 16;
  const std::uint32_t size = *from & 0x7fffU;
  std::uint32_t word = 0;
  if (size > 0x7c00U) {
    word = 0x7fc00000U | size << 13;
  } else if (size == 0x7c00U) {
    word = 0x7f800000U;
  } else if (size >= 0x0400U) {
    word = (size << 13) + (112U << 23);
  } else {  // a multiple of 2^-24
    word = std::bit_cast<std::uint32_t>(static_cast<float>(size) * 0x1p-24F);
  }
  *to = std::bit_cast<float>(sign | word);
}
#else
template <class D>
HWY_INLINE void convert_lanes(D d, const float* from, std::uint16_t* to) {
  const hn::Rebind<hwy::float16_t, D> d16;
  const hn::Rebind<std::uint16_t, D> bits;
  hn::StoreU(hn::BitCast(bits, hn::DemoteTo(d16, hn::LoadU(d, from))), bits, to);
}

template <class D>
HWY_INLINE void convert_lanes(D d, const std::uint16_t* from, float* to) {
  const hn::Rebind<hwy::float16_t, D> d16;
  const hn::Rebind<std::uint16_t, D> bits;
  hn::StoreU(hn::PromoteTo(d, hn::BitCast(d16, hn::LoadU(bits, from))), d, to);
}
#endif

template <class D, class From, class To>
HWY_INLINE void convert_run(D d, const From* from, To* to, std::int64_t count) {
  const auto n = static_cast<std::int64_t>(hn::Lanes(d));
  for (; count >= n; count -= n, from += n, to += n) convert_lanes(d, from, to);
  if constexpr (hn::MaxLanes(D()) > 1) {
    if (count > 0) convert_run(hn::Half<D>(), from, to, count);
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
