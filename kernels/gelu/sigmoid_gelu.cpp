#include "kernels/gelu/sigmoid_gelu.h"

#include "kernels/vector/dispatch.h"

// foreach_target.h includes this file once per instruction set, so it precedes the compiled code.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gelu/sigmoid_gelu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/exp/exp-inl.h"
#include "kernels/vector/vector_io-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

template <class T>
HWY_INLINE void sigmoid_gelu_of(const gelu::SigmoidGeluParams<T>& p) {
  const F32 d;
  const std::size_t n = hn::Lanes(d);
  const VecF32 one = hn::Set(d, 1.0F);
  const VecF32 slope = hn::Set(d, -p.form.slope);
  const VecF32 cubic = hn::Set(d, p.form.cubic);
  const auto y = [&](VecF32 x) {
    const VecF32 minus_z = hn::Mul(hn::Mul(slope, x), hn::MulAdd(cubic, hn::Mul(x, x), one));
    return hn::Div(x, hn::Add(one, exp_f32(minus_z)));
  };
  const auto count = static_cast<std::size_t>(p.count);
  std::size_t i = 0;
  for (; i + n <= count; i += n) store(y(load(p.x + i)), p.y + i);
  if (i < count) store_n(y(load_n(p.x + i, count - i)), p.y + i, count - i);
}

HYDRASCOPE_STORED_KERNELS(sigmoid_gelu, sigmoid_gelu_of, gelu::SigmoidGeluParams)

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydrascope::kernels::gelu {

HYDRASCOPE_DISPATCH(sigmoid_gelu, sigmoid_gelu, SigmoidGeluParams)

}  // namespace hydrascope::kernels::gelu
#endif  // HWY_ONCE
