// GELU by the error function: x Phi(x) = x/2 (1 + erf(x / sqrt 2)) (arXiv 1606.08415), torch's
// default.
//   float32   erf is a rational function x P(x^2) / Q(x^2) on [-4, 4], constant beyond
//   (coefficients:
//             Eigen's float minimax); its error is below 1e-6.
//   bfloat16  Phi - 1/2 is an odd polynomial (Remez exchange in float64, all errors of erf weighted
//             alike) on |x| <= 4.06, where it meets 1/2; no division. Error of erf at most 5.1e-5,
//             of GELU at most 1.1e-4, of the spacing of bfloat16 at 0.02 and below its rounding at
//             every |x| above 0.05 on the positive side; beyond 4.07 GELU is exactly 0 or x.
// Included after hwy/highway.h, once per instruction set.
#if defined(HYDRASCOPE_KERNELS_GELU_GELU_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_GELU_GELU_INL_H
#undef HYDRASCOPE_KERNELS_GELU_GELU_INL_H
#else
#define HYDRASCOPE_KERNELS_GELU_GELU_INL_H
#endif

#include "kernels/vector/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

HWY_INLINE VecF32 gelu_for_float(VecF32 x) {
  const F32 d;
  constexpr float kSqrtHalf = 0.70710678118654752F;
  constexpr float kNumerator[] = {-2.72614225801306e-10F, 2.77068142495902e-08F,
                                  -2.10102402082508e-06F, -5.69250639462346e-05F,
                                  -7.34990630326855e-04F, -2.95459980854025e-03F,
                                  -1.60960333262415e-02F};
  constexpr float kDenominator[] = {-1.45660718464996e-05F, -2.13374055278905e-04F,
                                    -1.68282697438203e-03F, -7.37332916720468e-03F,
                                    -1.42647390514189e-02F};
  const VecF32 z = hn::Mul(x, hn::Set(d, kSqrtHalf));
  // Clamped this way round a NaN stays: x multiplies the result.
  const VecF32 u = hn::Min(hn::Max(z, hn::Set(d, -4.0F)), hn::Set(d, 4.0F));
  const VecF32 square = hn::Mul(u, u);
  VecF32 p = hn::Set(d, kNumerator[0]);
  for (int i = 1; i < 7; ++i) p = hn::MulAdd(p, square, hn::Set(d, kNumerator[i]));
  VecF32 q = hn::Set(d, kDenominator[0]);
  for (int i = 1; i < 5; ++i) q = hn::MulAdd(q, square, hn::Set(d, kDenominator[i]));
  const VecF32 erf = hn::Div(hn::Mul(u, p), q);
  const VecF32 half = hn::Mul(x, hn::Set(d, 0.5F));
  return hn::MulAdd(half, erf, half);
}

HWY_INLINE VecF32 gelu_for_bfloat16(VecF32 x) {
  const F32 d;
  constexpr float kCoefficients[] = {-1.4527689258e-9F,   1.145355014859e-7F,   -3.94116607116e-6F,
                                     7.887326394061e-5F,  -1.0375258281682e-3F, 9.632682261262e-3F,
                                     -6.613331632264e-2F, 3.98831965603524e-1F};
  constexpr float kEnd = 4.06F;
  // The square is clamped, not x: behind kEnd the odd factor goes on growing, so that the clamp to
  // [0, 1] gives exact tails and a NaN stays in x.
  const VecF32 square = hn::Min(hn::Mul(x, x), hn::Set(d, kEnd * kEnd));
  VecF32 p = hn::Set(d, kCoefficients[0]);
  for (int i = 1; i < 8; ++i) p = hn::MulAdd(p, square, hn::Set(d, kCoefficients[i]));
  const VecF32 phi = hn::MulAdd(x, p, hn::Set(d, 0.5F));
  return hn::Mul(x, hn::Min(hn::Max(phi, hn::Zero(d)), hn::Set(d, 1.0F)));
}

/// T: what the result is stored in, which says how exact it has to be.
template <class T>
HWY_INLINE VecF32 gelu(VecF32 x) {
  if constexpr (sizeof(T) == 2) {
    return gelu_for_bfloat16(x);
  } else {
    return gelu_for_float(x);
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
