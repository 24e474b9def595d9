// The softmax between the two products of attention: the scores of one query become weights of its
// keys, e^(s - reference), stored in the form that the second product reads. Tolerance and test:
// softmax_attention.h. Included after hwy/highway.h, once per instruction set.
#if defined(HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_WEIGHTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_WEIGHTS_INL_H
#undef HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_WEIGHTS_INL_H
#else
#define HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_WEIGHTS_INL_H
#endif

#include "kernels/exp/exp-inl.h"
#include "kernels/softmax_attention/softmax_attention.h"
#include "kernels/vector/vector_io-inl.h"

#include <cstddef>
#include <cstdint>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// Scores are written and read in groups of this many columns.
constexpr std::size_t kScoreGroup = 32;

/// The place of key j's score in its group. bfloat16: even keys first, then odd ones, so that two
/// vectors of scores become one vector of pairs (even key below, odd key above) without a shuffle.
template <class T>
constexpr std::size_t score_column(std::size_t j) {
  return static_cast<std::size_t>(softmax_attention::sees_bit<T>(static_cast<std::int64_t>(j)));
}

/// The reference lies this far above the largest score; see bfloat16_weight.
template <class T>
constexpr float kReferenceMargin = sizeof(T) == 2 ? 0.34657359F : 0.0F;  // ln 2 / 2

/// The last group holds the scores of `count` < kScoreGroup keys; its other scores become -inf.
template <class T>
HWY_INLINE void mask_scores(float* group, std::size_t count) {
  const F32 d;
  const std::size_t n = hn::Lanes(d);
  constexpr std::size_t kHalf = kScoreGroup / 2;
  const VecF32 lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  // score_column puts them at the beginning of both halves.
  const std::size_t in_first = sizeof(T) == 2 ? (count + 1) / 2 : (count < kHalf ? count : kHalf);
  for (std::size_t c = 0; c < kScoreGroup; c += n) {
    const std::size_t end = c < kHalf ? in_first : kHalf + count - in_first;
    const std::size_t kept = end > c ? end - c : 0;
    const VecF32 scores = hn::LoadU(d, group + c);
    hn::StoreU(hn::IfThenElse(hn::FirstN(d, kept), scores, lowest), d, group + c);
  }
}

/// -inf for the scores whose bit in `sees` is not set. `columns`: a multiple of kScoreGroup.
HWY_INLINE void hide_unseen(const std::uint32_t* sees, std::size_t columns, float* scores) {
  const F32 d;
  const std::size_t n = hn::Lanes(d);
  const VecF32 lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (std::size_t c = 0; c < columns; c += n) {
    // Eight bytes, because a load may read as many; vectors are shorter than a word.
    const std::uint64_t bits = sees[c / kScoreGroup] >> (c % kScoreGroup);
    const auto seen = hn::LoadMaskBits(d, reinterpret_cast<const std::uint8_t*>(&bits));
    hn::StoreU(hn::IfThenElse(seen, hn::LoadU(d, scores + c), lowest), d, scores + c);
  }
}

/// The largest of `columns` scores, a multiple of kScoreGroup. It may lose a NaN, but the weight of
/// the NaN is NaN all the same.
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

/// sqrt(2) e^x for x <= -ln(2) / 2 about, rounded to bfloat16 (the lower halves of the lanes are
/// zero). The factor is common to all weights of a query and cancels. It puts the polynomial's
/// values into [1, 2): there, half a unit of bfloat16 is the constant 2^-8, and rounding is part of
/// the polynomial. Degree 3: its error of 7.5e-5 is a fiftieth of that rounding.
/// NaN stays NaN (its payload has to fit bfloat16).
HWY_INLINE VecF32 bfloat16_weight(VecF32 x) {
  const F32 d;
  const hn::Rebind<std::int32_t, F32> di32;
  constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23: a float this large has no fraction
  // 2^-127.499: exponent -127 with a fraction that rounds to 1.0 is the bit pattern of +0, which
  // -inf must give. From here to 2^-126 weights are subnormal, which counts as zero.
  constexpr float kLowest = -88.3755F;
  const VecF32 log2e = hn::Set(d, 1.44269504F);
  x = at_least(hn::Set(d, kLowest), x);
  const VecF32 rounded = hn::MulAdd(x, log2e, hn::Set(d, kRounder));
  const VecF32 f = hn::MulSub(x, log2e, hn::Sub(rounded, hn::Set(d, kRounder)));
  VecF32 p = hn::MulAdd(hn::Set(d, 0.0780245227F), f, hn::Set(d, 0.343103939F));
  p = hn::MulAdd(p, f, hn::Set(d, 0.980419088F));
  p = hn::MulAdd(p, f, hn::Set(d, 1.41411184F + 1.0F / 256));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di32, rounded));
  const auto scaled = hn::Add(hn::BitCast(di32, p), exponent);
  const auto upper = hn::Set(di32, static_cast<std::int32_t>(0xffff0000U));
  return hn::BitCast(d, hn::And(scaled, upper));
}

/// Writes the weights of `columns` keys (a multiple of kScoreGroup), in the keys' order. Returns
/// the sums of the rounded weights, one per lane: a common rounding error cancels.
HWY_INLINE VecF32 write_weights(const float* scores, std::size_t columns, float reference,
                                BFloat16* weights) {
  const F32 d;
  const hn::Rebind<std::uint32_t, F32> d32;
  const std::size_t n = hn::Lanes(d);
  constexpr std::size_t kHalf = kScoreGroup / 2;
  const VecF32 r = hn::Set(d, reference);
  VecF32 even_sum = hn::Zero(d);
  VecF32 odd_sum = hn::Zero(d);
  for (std::size_t c = 0; c < columns; c += kScoreGroup, scores += kScoreGroup) {
    for (std::size_t i = 0; i < kHalf; i += n) {
      const VecF32 even = bfloat16_weight(hn::Sub(hn::LoadU(d, scores + i), r));
      const VecF32 odd = bfloat16_weight(hn::Sub(hn::LoadU(d, scores + kHalf + i), r));
      even_sum = hn::Add(even_sum, even);
      odd_sum = hn::Add(odd_sum, odd);
      const auto pairs = hn::Or(hn::ShiftRight<16>(hn::BitCast(d32, even)), hn::BitCast(d32, odd));
      hn::StoreU(pairs, d32, reinterpret_cast<std::uint32_t*>(weights + c) + i);
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
