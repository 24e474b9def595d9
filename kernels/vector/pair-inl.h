// Rows in steps of two vectors. bfloat16 is taken apart as 32-bit words, even elements and odd
// ones, which saves the widening and the narrowing of every vector. Code between load and store
// that ignores the order of elements need not restore it. Included after hwy/highway.h, once per
// instruction set.
#if defined(HYDRASCOPE_KERNELS_VECTOR_PAIR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_VECTOR_PAIR_INL_H
#undef HYDRASCOPE_KERNELS_VECTOR_PAIR_INL_H
#else
#define HYDRASCOPE_KERNELS_VECTOR_PAIR_INL_H
#endif

#include "kernels/vector/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

using U32 = hn::Rebind<std::uint32_t, F32>;
using VecU32 = hn::Vec<U32>;

struct Pair {
  VecF32 first;
  VecF32 second;
};

HWY_INLINE VecU32 upper_halves() { return hn::Set(U32(), 0xffff0000U); }

/// Two bfloat16 of each lane as float32.
HWY_INLINE Pair pair_of_words(VecU32 words) {
  return {hn::BitCast(F32(), hn::ShiftLeft<16>(words)),
          hn::BitCast(F32(), hn::And(words, upper_halves()))};
}
HWY_INLINE Pair load_pair(const float* p) { return {load(p), load(p + lanes())}; }
HWY_INLINE Pair load_pair(const BFloat16* p) {
  return pair_of_words(hn::LoadU(U32(), reinterpret_cast<const std::uint32_t*>(p)));
}

/// Rounds the upper half of each lane to nearest even by an addition. A NaN needs no care while its
/// lower half is zero, as it is in every NaN that comes from bfloat16 or from arithmetic.
HWY_INLINE VecU32 rounded_up(VecF32 v) {
  const U32 d;
  const VecU32 word = hn::BitCast(d, v);
  const VecU32 odd = hn::And(hn::ShiftRight<16>(word), hn::Set(d, 1));
  return hn::Add(hn::Add(word, hn::Set(d, 0x7fff)), odd);
}
/// The upper halves of two vectors, joined in words.
HWY_INLINE VecU32 joined(VecU32 first, VecU32 second) {
  return hn::OrAnd(hn::ShiftRight<16>(first), second, upper_halves());
}

HWY_INLINE void store_pair(Pair v, float* p) {
  store(v.first, p);
  store(v.second, p + lanes());
}
HWY_INLINE void store_pair(Pair v, BFloat16* p) {
  hn::StoreU(joined(rounded_up(v.first), rounded_up(v.second)), U32(),
             reinterpret_cast<std::uint32_t*>(p));
}

/// Float32 values in the order that load_pair<T> gives, and back.
template <class T>
HWY_INLINE Pair load_pair_as(const float* p) {
  if constexpr (sizeof(T) == 4) return load_pair(p);
  Pair v;
  hn::LoadInterleaved2(F32(), p, v.first, v.second);
  return v;
}
template <class T>
HWY_INLINE void store_pair_as(Pair v, float* p) {
  if constexpr (sizeof(T) == 4) return store_pair(v, p);
  hn::StoreInterleaved2(v.first, v.second, F32(), p);
}

constexpr std::size_t kMaxPair = 2 * hn::MaxLanes(F32());

/// The end of a row, shorter than a pair, in memory of its own with zeros after it.
template <class T>
struct PairTail {
  HWY_ALIGN T values[kMaxPair];
  HWY_INLINE PairTail(const T* p, std::size_t count) {
    for (std::size_t i = 0; i < kMaxPair; ++i) values[i] = i < count ? p[i] : T(0.0F);
  }
  HWY_INLINE void give(T* p, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) p[i] = values[i];
  }
};

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
