// GELU by the error function: x Phi(x) = x/2 (1 + erf(x / sqrt 2)) (arXiv 1606.08415), the
// default of torch.
// float32: erf is a rational function x P(x^2) / Q(x^2) on [-4, 4], constant beyond (coefficients:
//   Eigen's float minimax); its error is below 1e-6, tested against std::erfc.
// bfloat16: max(x, 0) - a t(a) with a = |x|. The tail t = 1 - Phi is the eighth power of a
//   polynomial of degree 5 on [0, 5.2], constant beyond: the eighth root of t is nearly straight,
//   so that few terms suffice without a division. (Remez exchange in float64, weighted for equal
//   errors of erf.) Measured: erf to 4.5e-6, GELU to 6.6e-6, less than half of the last digit that
//   bfloat16 keeps wherever |GELU| > 0.002. Below -5.2 it stays at -3.5e-7.
// NaN and +infinity stay; -infinity gives NaN (float32, as in torch) or the constant tail (bfloat16).
// Test: tests/kernels/gelu/gelu_test.cpp; twin: gelu_reference.h beside it.
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
  // The clamps may lose a NaN, but the result is a product with x, which has it.
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
  constexpr float kCoefficients[] = {-1.833122002649e-4F,    1.8946606626174e-3F,
                                     -1.0200895067202e-3F,   -3.178661782123604e-2F,
                                     -9.147795692676093e-2F, 9.170044874695351e-1F};
  constexpr float kEnd = 5.2F;
  const VecF32 a = hn::Min(hn::Abs(x), hn::Set(d, kEnd));
  VecF32 root = hn::Set(d, kCoefficients[0]);
  for (int i = 1; i < 6; ++i) root = hn::MulAdd(root, a, hn::Set(d, kCoefficients[i]));
  const VecF32 square = hn::Mul(root, root);
  const VecF32 fourth = hn::Mul(square, square);
  const VecF32 tail = hn::Mul(fourth, fourth);
  return hn::NegMulAdd(a, tail, at_least(hn::Zero(d), x));
}

/// T is the type that the result is stored in; it decides how exact the result has to be.
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
