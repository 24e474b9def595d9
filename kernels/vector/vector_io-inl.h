// Loads and stores between float32 vectors and stored tensors, for kernels compiled once per
// instruction set (included after hwy/highway.h; the guard toggles with every pass of
// foreach_target). Rounding to bfloat16 is to nearest even in integer arithmetic on every
// instruction set, so that all of them store the same bits.
#if defined(HYDRASCOPE_KERNELS_VECTOR_VECTOR_IO_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_VECTOR_VECTOR_IO_INL_H
#undef HYDRASCOPE_KERNELS_VECTOR_VECTOR_IO_INL_H
#else
#define HYDRASCOPE_KERNELS_VECTOR_VECTOR_IO_INL_H
#endif

#include <hwy/highway.h>

#include "kernels/vector/scalar_types.h"

#include <cstddef>
#include <cstdint>
#include <hwy/cache_control.h>

// The instructions of the target that is compiled. Highway numbers the targets of a family of processors from
// the best one up: all of AVX-512, which later versions of Highway divide, are at most HWY_AVX3.
#define HYDRASCOPE_HAS_AVX512 (HWY_TARGET <= HWY_AVX3)
#define HYDRASCOPE_HAS_AVX2 (HWY_TARGET <= HWY_AVX2)

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using VecF32 = hn::Vec<F32>;

HWY_INLINE std::size_t lanes() { return hn::Lanes(F32()); }

HWY_INLINE VecF32 load(const float* p) { return hn::LoadU(F32(), p); }
HWY_INLINE VecF32 load(const BFloat16* p) {
  const hn::Rebind<std::uint16_t, F32> d16;
  const hn::Rebind<std::uint32_t, F32> d32;
  const auto half = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p));
  return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(d32, half)));
}

/// bfloat16 bits of each lane, in the low halves of 32-bit lanes.
HWY_INLINE hn::Vec<hn::Rebind<std::uint32_t, F32>> bfloat16_bits(VecF32 v) {
  const hn::Rebind<std::uint32_t, F32> d32;
  const auto word = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(word), hn::Set(d32, 1));
  const auto rounded = hn::Add(word, hn::Add(odd, hn::Set(d32, 0x7fff)));
  const auto quiet = hn::Or(word, hn::Set(d32, 0x00400000));
  const auto chosen = hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(v)), quiet, rounded);
  return hn::ShiftRight<16>(chosen);
}

HWY_INLINE void store(VecF32 v, float* p) { hn::StoreU(v, F32(), p); }
HWY_INLINE void store(VecF32 v, BFloat16* p) {
  const hn::Rebind<std::uint16_t, F32> d16;
  const hn::Rebind<std::int32_t, F32> di32;
  // Values below 2^16: the saturating demotion is exact.
  const auto half = hn::DemoteTo(d16, hn::BitCast(di32, bfloat16_bits(v)));
  hn::StoreU(half, d16, reinterpret_cast<std::uint16_t*>(p));
}

/// The first `count` (below lanes()) lanes; the rest is zero. Reads nothing after them.
template <class T>
HWY_INLINE VecF32 load_n(const T* p, std::size_t count) {
  HWY_ALIGN float values[hn::MaxLanes(F32())] = {};
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(p[i]);
  return hn::Load(F32(), values);
}
template <class T>
HWY_INLINE void store_n(VecF32 v, T* p, std::size_t count) {
  HWY_ALIGN float values[hn::MaxLanes(F32())];
  hn::Store(v, F32(), values);
  for (std::size_t i = 0; i < count; ++i) p[i] = T(values[i]);
}

/// `count` lanes (any number, also none or more than there are) of a row, then zeros.
template <class T>
HWY_INLINE VecF32 take(const T* p, std::int64_t count) {
  if (HWY_LIKELY(count >= static_cast<std::int64_t>(lanes()))) return load(p);
  return count <= 0 ? hn::Zero(F32()) : load_n(p, static_cast<std::size_t>(count));
}
/// Stores `count` (at least one, or more than there are) lanes.
template <class T>
HWY_INLINE void give(VecF32 v, T* p, std::int64_t count) {
  if (HWY_LIKELY(count >= static_cast<std::int64_t>(lanes()))) return store(v, p);
  store_n(v, p, static_cast<std::size_t>(count));
}
/// Lanes after `count` replaced.
HWY_INLINE VecF32 first_or(VecF32 v, std::int64_t count, float fill) {
  const F32 d;
  if (HWY_LIKELY(count >= static_cast<std::int64_t>(lanes()))) return v;
  const auto inside = hn::FirstN(d, static_cast<std::size_t>(count <= 0 ? 0 : count));
  return hn::IfThenElse(inside, v, hn::Set(d, fill));
}

/// The larger of both; a NaN in x stays. The maximum of AVX gives its second operand if one is a NaN,
/// those of NEON and of Highway's scalars give the number.
HWY_INLINE VecF32 at_least(VecF32 low, VecF32 x) {
#if HYDRASCOPE_HAS_AVX2
  return hn::Max(low, x);
#else
  return hn::IfThenElse(hn::Lt(x, low), low, x);
#endif
}

/// Prefetches a row, one cache line after the other.
template <class T>
HWY_INLINE void prefetch_row(const T* row, std::int64_t width) {
  constexpr auto kLine = static_cast<std::int64_t>(64 / sizeof(T));
  for (std::int64_t i = 0; i < width; i += kLine) hwy::Prefetch(row + i);
}

HWY_INLINE float sum_of_lanes(VecF32 v) { return hn::GetLane(hn::SumOfLanes(F32(), v)); }

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
