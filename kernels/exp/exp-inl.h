// exp of float32 vectors: x = n ln 2 + r with |r| <= ln 2 / 2, e^x = 2^n e^r; e^r is a polynomial
// of degree 6 (Remez, relative error 1.9e-9), 2^n an addition to the exponent. The relative error
// is below 2e-7 wherever the result is a normal number; results below 2^-126 (and -inf) give 0,
// results above the largest float give +inf, NaN stays NaN. exp(0) is 1 exactly. Included after
// hwy/highway.h, once per instruction set. Test: tests/kernels/exp/exp_test.cpp.
#if defined(HYDRASCOPE_KERNELS_EXP_EXP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_EXP_EXP_INL_H
#undef HYDRASCOPE_KERNELS_EXP_EXP_INL_H
#else
#define HYDRASCOPE_KERNELS_EXP_EXP_INL_H
#endif

#include "kernels/vector/vector_io-inl.h"

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

HWY_INLINE VecF32 exp_f32(VecF32 x) {
  const F32 d;
  const hn::Rebind<std::int32_t, F32> di32;
  constexpr float kLog2E = 1.44269504F;
  constexpr float kRounder = 12582912.0F;   // 1.5 * 2^23: a float this large has no fraction
  constexpr float kLn2High = 0.693359375F;  // nine bits: n times it is exact, with or without FMA
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kLowest = -87.3365F;   // ln 2^-126
  constexpr float kHighest = 88.72284F;  // ln of the largest float
  constexpr float kCoefficients[] = {
      1.3836846e-3F, 8.3748158e-3F, 4.16682256e-2F, 1.66664202e-1F, 4.99999921e-1F, 1.0F, 1.0F};
  const VecF32 rounded = hn::MulAdd(x, hn::Set(d, kLog2E), hn::Set(d, kRounder));
  const VecF32 n = hn::Sub(rounded, hn::Set(d, kRounder));
  const VecF32 r = hn::NegMulAdd(n, hn::Set(d, kLn2Low), hn::NegMulAdd(n, hn::Set(d, kLn2High), x));
  VecF32 p = hn::Set(d, kCoefficients[0]);
  for (int i = 1; i < 7; ++i) p = hn::MulAdd(p, r, hn::Set(d, kCoefficients[i]));
  // The low bits of `rounded` are n; the upper ones are shifted out. An addition, not a product
  // with 2^n: n = 128 is needed just below the overflow, where p is below 1.
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di32, rounded));
  const VecF32 scaled = hn::BitCast(d, hn::Add(hn::BitCast(di32, p), exponent));
  // Comparisons are false for NaN, which must not depend on the bits its payload adds.
  const VecF32 above = hn::IfThenElse(hn::Gt(x, hn::Set(d, kHighest)),
                                      hn::Set(d, std::numeric_limits<float>::infinity()), scaled);
  const VecF32 normal = hn::IfThenElse(hn::Lt(x, hn::Set(d, kLowest)), hn::Zero(d), above);
  return hn::IfThenElse(hn::IsNaN(x), x, normal);
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
