// Transposes words of 32 bits, 4 x 4 at a time. Tests: softmax_attention.h and linear_attention.h.
// Included after hwy/highway.h, once per instruction set; scalars have none.
#if defined(HYDRASCOPE_KERNELS_LINEAR_TRANSPOSE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_LINEAR_TRANSPOSE_INL_H
#undef HYDRASCOPE_KERNELS_LINEAR_TRANSPOSE_INL_H
#else
#define HYDRASCOPE_KERNELS_LINEAR_TRANSPOSE_INL_H
#endif

#include "kernels/vector/vector_io-inl.h"

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
/// Reads four rows of four words, `stride` bytes apart, and writes rows `to_stride` words apart.
HWY_INLINE void transpose_words(const void* from, std::int64_t stride, std::uint32_t* to,
                                std::int64_t to_stride) {
  const hn::Full128<std::uint32_t> d32;
  const hn::Full128<std::uint64_t> d64;
  const auto* at = static_cast<const std::byte*>(from);
  const auto a = hn::LoadU(d32, reinterpret_cast<const std::uint32_t*>(at));
  const auto b = hn::LoadU(d32, reinterpret_cast<const std::uint32_t*>(at + stride));
  const auto c = hn::LoadU(d32, reinterpret_cast<const std::uint32_t*>(at + 2 * stride));
  const auto e = hn::LoadU(d32, reinterpret_cast<const std::uint32_t*>(at + 3 * stride));
  const auto ab01 = hn::BitCast(d64, hn::InterleaveLower(d32, a, b));
  const auto ab23 = hn::BitCast(d64, hn::InterleaveUpper(d32, a, b));
  const auto ce01 = hn::BitCast(d64, hn::InterleaveLower(d32, c, e));
  const auto ce23 = hn::BitCast(d64, hn::InterleaveUpper(d32, c, e));
  hn::StoreU(hn::BitCast(d32, hn::InterleaveLower(d64, ab01, ce01)), d32, to);
  hn::StoreU(hn::BitCast(d32, hn::InterleaveUpper(d64, ab01, ce01)), d32, to + to_stride);
  hn::StoreU(hn::BitCast(d32, hn::InterleaveLower(d64, ab23, ce23)), d32, to + 2 * to_stride);
  hn::StoreU(hn::BitCast(d32, hn::InterleaveUpper(d64, ab23, ce23)), d32, to + 3 * to_stride);
}
#endif

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
