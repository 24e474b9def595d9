// exp of float32 vectors. exp(x) = 2^n e^r with n = round(x / ln 2) and r = x - n ln 2, |r| <= ln 2
// / 2, ln 2 in two parts of which the first has zeros enough that n times it is exact (Cody and
// Waite), and e^r a minimax polynomial of degree 6 (error 1e-8). Within 2e-7 of the true value over
// the whole range, exp(0) = 1, subnormal results included, exp(-inf) = 0, exp(x) = inf above 88.73,
// NaN stays. Test: tests/kernels/exp/exp_test.cpp. Included after hwy/highway.h, once per
// instruction set.
#if defined(HYDRASCOPE_KERNELS_EXP_EXP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_EXP_EXP_INL_H
#undef HYDRASCOPE_KERNELS_EXP_EXP_INL_H
#else
#define HYDRASCOPE_KERNELS_EXP_EXP_INL_H
#endif

#include "kernels/vector/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// p 2^n for whole n in [-151, 129], in two factors: 2^n alone may be no float32.
HWY_INLINE VecF32 times_power_of_two(VecF32 p, VecF32 n) {
  const F32 d;
  const hn::Rebind<std::int32_t, F32> di;
  const auto whole = hn::NearestInt(n);
  const auto first = hn::ShiftRight<1>(whole);
  const auto second = hn::Sub(whole, first);
  const auto bias = hn::Set(di, 127);
  const VecF32 once = hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(first, bias))));
  return hn::Mul(once, hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(second, bias))));
}

HWY_INLINE VecF32 exp_f32(VecF32 x) {
  const F32 d;
  // exp is 0 below and infinite above; beyond, n and r would be meaningless.
  const VecF32 bounded = hn::Min(hn::Max(x, hn::Set(d, -104.0F)), hn::Set(d, 89.0F));
  const VecF32 n = hn::Round(hn::Mul(bounded, hn::Set(d, 1.44269504088896341F)));
  VecF32 r = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), bounded);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), r);
  VecF32 p = hn::Set(d, 1.384360670e-03F);
  p = hn::MulAdd(p, r, hn::Set(d, 8.374195613e-03F));
  p = hn::MulAdd(p, r, hn::Set(d, 4.166800473e-02F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.666643080e-01F));
  p = hn::MulAdd(p, r, hn::Set(d, 4.999999419e-01F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
  // Whether the bounds let a NaN through differs from one instruction set to the next.
  return hn::IfThenElse(hn::IsNaN(x), x, times_power_of_two(p, n));
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
