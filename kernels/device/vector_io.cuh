// 16-byte loads and stores of storage types, and their conversion to float32.
#pragma once

#include "kernels/device/cuda_language.cuh"
#include "kernels/vector/scalar_types.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include <array>
#include <bit>
#include <cstdint>

namespace hydrascope::kernels::device {

/// `count` neighbouring values of T in registers; at most 16 bytes, aligned to their size.
template <class T, int count>
struct alignas(sizeof(T) * count) Pack {
  static_assert(sizeof(T) * count <= 16);
  T values[count];
};
/// Values of T that 16 bytes hold.
template <class T>
inline constexpr int kPackSize = 16 / sizeof(T);

template <int count, class T>
__device__ __forceinline__ Pack<T, count> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, count>*>(from);
}
template <int count, class T>
__device__ __forceinline__ void store_pack(T* to, const Pack<T, count>& pack) {
  *reinterpret_cast<Pack<T, count>*>(to) = pack;
}
/// store_pack to global memory, always in one access. A plain store of 16 bytes whose values were
/// computed one by one is taken apart by the compiler, into one of 2 bytes for each.
template <int count, class T>
__device__ __forceinline__ void store_global(T* to, const Pack<T, count>& pack) {
#ifdef __CUDACC__
  if constexpr (sizeof(pack) == 16) {
    const auto words = std::bit_cast<std::array<std::uint32_t, 4>>(pack);
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(__cvta_generic_to_global(to)), "r"(words[0]), "r"(words[1]), "r"(words[2]),
                   "r"(words[3])
                 : "memory");
    return;
  }
#endif
  store_pack(to, pack);
}

/// `count` neighbouring float32 values from an address that 16 divides.
template <int count>
__device__ __forceinline__ void load_floats(const float* from, float (&values)[count]) {
#pragma unroll
  for (int i = 0; i < count; i += 4) {
    const Pack<float, 4> four = load_pack<4>(from + i);
#pragma unroll
    for (int j = 0; j < 4; ++j) values[i + j] = four.values[j];
  }
}

/// A Word that lies in an array of another type, aligned to its size. Its own type may alias any
/// other: through a plain pointer the compiler may take the two for different places and swap
/// accesses; and for memcpy nvcc forgets the alignment and moves bytes.
template <class Word>
struct Anywhere {
  using type [[gnu::may_alias]] = Word;
};
template <class Word>
__device__ __forceinline__ Word load_word(const void* from) {
  return *static_cast<const typename Anywhere<Word>::type*>(from);
}
template <class Word>
__device__ __forceinline__ void store_word(void* to, Word word) {
  *static_cast<typename Anywhere<Word>::type*>(to) = word;
}

__device__ __forceinline__ float to_float(float value) { return value; }
#ifdef __CUDACC__
__device__ __forceinline__ float to_float(BFloat16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}
__device__ __forceinline__ float to_float(Float16 value) {
  return __half2float(__ushort_as_half(value.bits));
}
/// Two roundings to nearest even in one instruction; `low` lies first in memory.
__device__ __forceinline__ std::uint32_t round_pair(float low, float high, BFloat16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return load_word<std::uint32_t>(&pair);
}
__device__ __forceinline__ std::uint32_t round_pair(float low, float high, Float16) {
  const __half2 pair = __floats2half2_rn(low, high);
  return load_word<std::uint32_t>(&pair);
}
#else
inline float to_float(BFloat16 value) { return static_cast<float>(value); }
inline float to_float(Float16 value) { return static_cast<float>(value); }
template <class T>
std::uint32_t round_pair(float low, float high, T) {
  return T(low).bits | static_cast<std::uint32_t>(T(high).bits) << 16;
}
#endif
template <class T>
__device__ __forceinline__ T from_float(float value) {
  if constexpr (sizeof(T) == 4) {
    return value;
  } else {
    T result;
    result.bits = static_cast<std::uint16_t>(round_pair(value, 0.0F, T{}));
    return result;
  }
}

template <class T, int count>
__device__ __forceinline__ void to_floats(const Pack<T, count>& pack, float (&values)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) values[i] = to_float(pack.values[i]);
}
template <class T, int count>
__device__ __forceinline__ Pack<T, count> from_floats(const float (&values)[count]) {
  Pack<T, count> pack;
  if constexpr (sizeof(T) == 2 && count % 2 == 0) {
#pragma unroll
    for (int i = 0; i < count / 2; ++i)
      store_word(pack.values + 2 * i, round_pair(values[2 * i], values[2 * i + 1], T{}));
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) pack.values[i] = from_float<T>(values[i]);
  }
  return pack;
}

/// A pack of 16 bytes as four words. The compiler gives each value of a Pack, also a 16-bit one, a
/// register of its own on arrival; a row that waits for its norm takes only four as words.
template <class T>
struct alignas(16) [[gnu::may_alias]] PackedWords {
  std::uint32_t words[4];
};
template <class T>
__device__ __forceinline__ PackedWords<T> load_words(const T* from) {
  return *reinterpret_cast<const PackedWords<T>*>(from);
}
template <class T>
__device__ __forceinline__ float value_of(const PackedWords<T>& pack, int index) {
  if constexpr (sizeof(T) == 4) {
    return std::bit_cast<float>(pack.words[index]);
  } else {
    T value;
    value.bits = static_cast<std::uint16_t>(pack.words[index / 2] >> (16 * (index % 2)));
    return to_float(value);
  }
}
/// Makes the compiler forget a pack's converted values instead of keeping them for another use.
template <class T>
__device__ __forceinline__ void forget_values([[maybe_unused]] PackedWords<T>& pack) {
#ifdef __CUDACC__
  if constexpr (sizeof(T) == 2)
    asm volatile(""
                 : "+r"(pack.words[0]), "+r"(pack.words[1]), "+r"(pack.words[2]),
                   "+r"(pack.words[3]));
#endif
}

/// Whether rows that begin at `base`, `stride` elements apart, can be read in packs of `count`.
template <class T>
inline bool can_pack(const T* base, std::int64_t stride, int count) {
  return reinterpret_cast<std::uintptr_t>(base) % (sizeof(T) * count) == 0 && stride % count == 0;
}

}  // namespace hydrascope::kernels::device
