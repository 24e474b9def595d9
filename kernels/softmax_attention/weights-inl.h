// The softmax between the two products of attention: scores of one query become weights of its
// keys, e^(s - reference), stored as what the second product reads. Included after hwy/highway.h,
// once per instruction set.
#if defined(HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_WEIGHTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_WEIGHTS_INL_H
#undef HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_WEIGHTS_INL_H
#else
#define HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_WEIGHTS_INL_H
#endif

#include "kernels/exp/exp-inl.h"
#include "kernels/vector/vector_io-inl.h"

#include <cstddef>
#include <cstdint>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// Scores are written and read in groups of this many columns.
constexpr std::size_t kScoreGroup = 32;

/// Where the score of key j stands in its group. bfloat16: even keys first, then odd ones, so that
/// two vectors of scores become one of pairs (even key below, odd key above) without a shuffle.
template <class T>
constexpr std::size_t score_column(std::size_t j) {
  if constexpr (sizeof(T) == 2) {
    return j / kScoreGroup * kScoreGroup + j % 2 * (kScoreGroup / 2) + j % kScoreGroup / 2;
  } else {
    return j;
  }
}

/// The reference lies this far above the largest score; see bfloat16_weight.
template <class T>
constexpr float kReferenceMargin = sizeof(T) == 2 ? 0.34657359F : 0.0F;  // ln 2 / 2

/// The largest of `columns` scores, a multiple of kScoreGroup. A NaN among them may be lost: its
/// weight is NaN all the same.
HWY_INLINE float largest_score(const float* scores, std::size_t columns) {
  const F32 d;
  const std::size_t n = hn::Lanes(d);
  VecF32 even = hn::Set(d, -std::numeric_limits<float>::infinity());
  VecF32 odd = even;
  for (std::size_t c = 0; c < columns; c += 2 * n) {
    even = hn::Max(even, hn::LoadU(d, scores + c));
    odd = hn::Max(odd, hn::LoadU(d, scores + c + n));
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(even, odd)));
}

/// sqrt(2) e^x for x <= -ln(2) / 2 about, rounded to bfloat16, in the upper halves of the lanes;
/// the lower halves are not zero yet. The factor is common to all weights of a query and cancels.
/// It puts the polynomial's values into [1, 2): there, half a unit of bfloat16 is the constant
/// 2^-8, and rounding is part of the polynomial. Degree 3: its error of 7.5e-5 is a fiftieth of
/// that rounding. Zero below e^-87 and for -inf, NaN for NaN (of a payload that fits bfloat16).
HWY_INLINE hn::Vec<hn::Rebind<std::int32_t, F32>> bfloat16_weight(VecF32 x) {
  const F32 d;
  const hn::Rebind<std::int32_t, F32> di32;
  constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23
  const VecF32 log2e = hn::Set(d, 1.44269504F);
  const VecF32 rounded = hn::MulAdd(x, log2e, hn::Set(d, kRounder));
  const VecF32 f = hn::MulSub(x, log2e, hn::Sub(rounded, hn::Set(d, kRounder)));
  VecF32 p = hn::MulAdd(hn::Set(d, 0.0780245227F), f, hn::Set(d, 0.343103939F));
  p = hn::MulAdd(p, f, hn::Set(d, 0.980419088F));
  p = hn::MulAdd(p, f, hn::Set(d, 1.41411184F + 1.0F / 256));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di32, rounded));
  const auto scaled = hn::Add(hn::BitCast(di32, p), exponent);
  return hn::IfThenZeroElse(hn::RebindMask(di32, hn::Lt(x, hn::Set(d, -87.0F))), scaled);
}

/// Weights of `columns` keys (a multiple of kScoreGroup), in the keys' order. Returns their sums, a
/// lane each; of the rounded weights: what rounding does to all of them cancels in the quotient.
HWY_INLINE VecF32 write_weights(const float* scores, std::size_t columns, float reference,
                                BFloat16* weights) {
  const F32 d;
  const hn::Rebind<std::int32_t, F32> di32;
  const std::size_t n = hn::Lanes(d);
  constexpr std::size_t kHalf = kScoreGroup / 2;
  const VecF32 r = hn::Set(d, reference);
  const auto upper = hn::Set(di32, static_cast<std::int32_t>(0xffff0000U));
  VecF32 even_sum = hn::Zero(d);
  VecF32 odd_sum = hn::Zero(d);
  for (std::size_t c = 0; c < columns; c += kScoreGroup, scores += kScoreGroup) {
    for (std::size_t i = 0; i < kHalf; i += n) {
      const auto even = hn::And(bfloat16_weight(hn::Sub(hn::LoadU(d, scores + i), r)), upper);
      const auto odd =
          hn::And(bfloat16_weight(hn::Sub(hn::LoadU(d, scores + kHalf + i), r)), upper);
      even_sum = hn::Add(even_sum, hn::BitCast(d, even));
      odd_sum = hn::Add(odd_sum, hn::BitCast(d, odd));
      const hn::Rebind<std::uint32_t, F32> du32;
      const auto pairs =
          hn::Or(hn::ShiftRight<16>(hn::BitCast(du32, even)), hn::BitCast(du32, odd));
      hn::StoreU(pairs, du32, reinterpret_cast<std::uint32_t*>(weights + c) + i);
    }
  }
  return hn::Add(even_sum, odd_sum);
}

HWY_INLINE VecF32 write_weights(const float* scores, std::size_t columns, float reference,
                                float* weights) {
  const F32 d;
  const std::size_t n = hn::Lanes(d);
  const VecF32 r = hn::Set(d, reference);
  VecF32 sum = hn::Zero(d);
  for (std::size_t c = 0; c < columns; c += n) {
    const VecF32 weight = exp_f32(hn::Sub(hn::LoadU(d, scores + c), r));
    sum = hn::Add(sum, weight);
    hn::StoreU(weight, d, weights + c);
  }
  return sum;
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
