#include "kernels/patchify/patchify.h"

#include "kernels/vector/dispatch.h"

// foreach_target.h includes this file once per instruction set, so it precedes the compiled code.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/patchify/patchify.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/vector/vector_io-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

template <class D>
HWY_INLINE void convert_lanes(D d, const float* from, float* to) {
  hn::StoreU(hn::LoadU(d, from), d, to);
}

/// Rounds to nearest, ties to even, as BFloat16(float) does.
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

/// Copies one line of a patch, 56 or 64 bytes: no multiple of a vector, so its tail goes through
/// vectors of half the size, then a quarter, down to one lane. Nothing outside is read or written.
template <class D, class T>
HWY_INLINE void convert_run(D d, const float* from, T* to, std::int64_t count) {
  const auto n = static_cast<std::int64_t>(hn::Lanes(d));
  for (; count >= n; count -= n, from += n, to += n) convert_lanes(d, from, to);
  if constexpr (hn::MaxLanes(D()) > 1) {
    if (count > 0) convert_run(hn::Half<D>(), from, to, count);
  }
}

/// Goes patch by patch: y is written front to back, and the next patch reads on in each image row
/// behind the patch before.
template <class T>
void patch_rows(const patchify::TensorParams<T>& p) {
  T* row = p.y;
  for (std::int64_t q = p.first; q < p.first + p.count; ++q, row += p.y_stride) {
    const float* patch =
        p.tensor + (q / p.grid_columns * p.width + q % p.grid_columns) * p.patch_size;
    T* y = row;
    for (std::int64_t channel = 0; channel < p.channels; ++channel) {
      const float* line = patch + channel * p.height * p.width;
      for (std::int64_t i = 0; i < p.patch_size; ++i, line += p.width, y += p.patch_size)
        convert_run(F32(), line, y, p.patch_size);
    }
  }
}

HYDRASCOPE_STORED_KERNELS(patchify, patch_rows, patchify::TensorParams)

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydrascope::kernels::patchify {

HYDRASCOPE_DISPATCH(from_tensor, patchify, TensorParams)

}  // namespace hydrascope::kernels::patchify
#endif  // HWY_ONCE
