#include "kernels/swiglu/swiglu.h"

#include "kernels/vector/dispatch.h"

// foreach_target.h includes this file once per instruction set, so it precedes the compiled code.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/swiglu/swiglu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/exp/exp-inl.h"
#include "kernels/vector/vector_io-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

HWY_INLINE VecF32 silu(VecF32 g) {
  const F32 d;
  return hn::Div(g, hn::Add(hn::Set(d, 1.0F), exp_f32(hn::Neg(g))));
}

/// In place, a row is read from behind its written place or from the same place.
template <class T>
HWY_INLINE void swiglu_of(const swiglu::SwigluParams<T>& p) {
  const F32 d;
  const std::size_t n = hn::Lanes(d);
  const auto width = static_cast<std::size_t>(p.width);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const T* g = p.x + row * 2 * p.width;
    const T* u = g + width;
    T* y = p.y + row * p.width;
    std::size_t i = 0;
    for (; i + n <= width; i += n) store(hn::Mul(silu(load(g + i)), load(u + i)), y + i);
    if (i < width) {
      const std::size_t rest = width - i;
      store_n(hn::Mul(silu(load_n(g + i, rest)), load_n(u + i, rest)), y + i, rest);
    }
  }
}

HYDRASCOPE_STORED_KERNELS(swiglu, swiglu_of, swiglu::SwigluParams)

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydrascope::kernels::swiglu {

HYDRASCOPE_DISPATCH(swiglu, swiglu, SwigluParams)

}  // namespace hydrascope::kernels::swiglu
#endif  // HWY_ONCE
