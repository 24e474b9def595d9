// The feature maps of linear attention on vectors, for keys and queries alike.
// Tolerance and test: linear_attention.h. Included after hwy/highway.h, once per instruction set.
#if defined(HYDRASCOPE_KERNELS_LINEAR_ATTENTION_FEATURE_MAP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_LINEAR_ATTENTION_FEATURE_MAP_INL_H
#undef HYDRASCOPE_KERNELS_LINEAR_ATTENTION_FEATURE_MAP_INL_H
#else
#define HYDRASCOPE_KERNELS_LINEAR_ATTENTION_FEATURE_MAP_INL_H
#endif

#include "kernels/exp/exp-inl.h"
#include "kernels/linear_attention/linear_attention.h"
#include "kernels/vector/pair-inl.h"

#include <cmath>
#include <limits>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

using linear_attention::Feature;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Exponents of a map are slope u - shift of the token, and for the second part -slope u - shift.
template <Feature kFeature>
constexpr float kSlope = kFeature == Feature::softmax_both ? 2.0F : 1.0F;
/// Whether the shifts differ from zero.
template <Feature kFeature>
constexpr bool kShifts = kFeature >= Feature::softmax_pair;
/// Whether the map looks at a token's row before it gives a feature.
template <Feature kFeature>
constexpr bool kNeedsRow = kShifts<kFeature> || kFeature == Feature::unit;

/// Features that are stored in bfloat16 take 2^t, which saves a multiplication of every element:
/// their exponents are kept times log2(e).
template <class T>
constexpr float kExponentUnit = sizeof(T) == 2 ? 1.44269504088896341F : 1.0F;

/// e^x of an exponent in T's unit. bfloat16: degree 4 (error 3e-6, a thousandth of the rounding
/// that follows), at least 2^-125 instead of 0, exponents of at most 100.
template <class T>
HWY_INLINE VecF32 exp_in_unit(VecF32 t) {
  if constexpr (sizeof(T) == 4) {
    return exp_f32(t);
  } else {
    const F32 d;
    const U32 d32;
    const VecF32 bounded = at_least(hn::Set(d, -125.0F), t);
    // Adding 1.5 * 2^23 rounds to a whole number and leaves it in the lowest bits.
    const VecF32 magic = hn::Set(d, 12582912.0F);
    const VecF32 whole = hn::Add(bounded, magic);
    const VecF32 r = hn::Sub(bounded, hn::Sub(whole, magic));
    VecF32 p = hn::Set(d, 9.582807500e-03F);
    p = hn::MulAdd(p, r, hn::Set(d, 5.590689744e-02F));
    p = hn::MulAdd(p, r, hn::Set(d, 2.402410215e-01F));
    p = hn::MulAdd(p, r, hn::Set(d, 6.931241403e-01F));
    p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
    // The lower half of a NaN is zero (pair-inl.h): the shift leaves 0, and p stays NaN.
    const VecU32 power = hn::ShiftLeft<23>(hn::BitCast(d32, whole));
    return hn::BitCast(d, hn::Add(hn::BitCast(d32, p), power));
  }
}

/// Features of maps that give no exponents.
template <class T, Feature kFeature>
HWY_INLINE VecF32 plain_feature(VecF32 u, float of_row) {
  const F32 d;
  const VecF32 zero = hn::Zero(d);
  if constexpr (kFeature == Feature::elu_plus_one) {
    const VecF32 below = exp_in_unit<T>(hn::Mul(hn::Min(u, zero), hn::Set(d, kExponentUnit<T>)));
    const VecF32 chosen = hn::IfThenElse(hn::Gt(u, zero), hn::Add(u, hn::Set(d, 1.0F)), below);
    return hn::IfThenElse(hn::IsNaN(u), u, chosen);
  } else if constexpr (kFeature == Feature::relu) {
    return hn::IfThenElse(hn::Lt(u, zero), zero, u);  // this comparison lets a NaN pass
  } else {
    return hn::Mul(u, hn::Set(d, of_row));
  }
}

/// A map's numbers from a whole row: shifts of both parts, or 1 / max(|u|, eps).
struct OfRow {
  float first;
  float second;
};

/// Stores two vectors of features as words of bfloat16; returns their rounded values. Exponentials
/// half way are rounded up, which saves two instructions a vector: powers of e never lie there.
HWY_INLINE Pair store_rounded(Pair b, bool exponential, BFloat16* to) {
  const U32 d;
  VecU32 first;
  VecU32 second;
  if (exponential) {
    const VecU32 half = hn::Set(d, 0x8000);
    first = hn::Add(hn::BitCast(d, b.first), half);
    second = hn::Add(hn::BitCast(d, b.second), half);
  } else {
    first = rounded_up(b.first);
    second = rounded_up(b.second);
  }
  first = hn::And(first, upper_halves());
  second = hn::And(second, upper_halves());
  hn::StoreU(hn::Or(hn::ShiftRight<16>(first), second), d, reinterpret_cast<std::uint32_t*>(to));
  return {hn::BitCast(F32(), first), hn::BitCast(F32(), second)};
}

template <Feature kFeature, class T>
HWY_INLINE OfRow of_row(const T* u, std::int64_t width, float unit_eps) {
  const F32 d;
  const auto n = static_cast<std::int64_t>(lanes());
  if constexpr (kFeature == Feature::unit) {
    VecF32 sum = hn::Zero(d);
    for (std::int64_t j = 0; j < width; j += n) {
      const VecF32 x = take(u + j, width - j);
      sum = hn::MulAdd(x, x, sum);
    }
    const float norm = std::sqrt(sum_of_lanes(sum));
    return {1 / (norm < unit_eps ? unit_eps : norm), 0};
  } else if constexpr (kShifts<kFeature>) {
    VecF32 maximum = hn::Set(d, -kInfinity);
    VecF32 minimum = hn::Set(d, kInfinity);
    for (std::int64_t j = 0; j < width; j += n) {
      const VecF32 x = take(u + j, width - j);
      maximum = hn::Max(maximum, first_or(x, width - j, -kInfinity));
      minimum = hn::Min(minimum, first_or(x, width - j, kInfinity));
    }
    float above = hn::GetLane(hn::MaxOfLanes(d, maximum));
    float below = -hn::GetLane(hn::MinOfLanes(d, minimum));
    if constexpr (kFeature == Feature::exp_centred) return {above, below};
    if constexpr (kFeature == Feature::softmax_both) {
      above = above > below ? 2 * above : 2 * below;
      below = above;
    }
    const VecF32 slope = hn::Set(d, kSlope<kFeature>);
    VecF32 sum = hn::Zero(d);
    VecF32 sum_below = hn::Zero(d);
    for (std::int64_t j = 0; j < width; j += n) {
      const VecF32 x = take(u + j, width - j);
      const VecF32 up = exp_f32(hn::MulSub(x, slope, hn::Set(d, above)));
      const VecF32 down = exp_f32(hn::NegMulSub(x, slope, hn::Set(d, below)));
      sum = hn::Add(sum, first_or(up, width - j, 0));
      sum_below = hn::Add(sum_below, first_or(down, width - j, 0));
    }
    const float first = sum_of_lanes(sum);
    const float second = sum_of_lanes(sum_below);
    if constexpr (kFeature == Feature::softmax_both) {
      const float shift = above + std::log(first + second);
      return {shift, shift};
    }
    return {above + std::log(first), below + std::log(second)};
  }
  return {0, 0};
}

/// Calls `function` with an integral_constant: the map.
template <class Function>
void with_feature(Feature feature, const Function& function) {
  switch (feature) {
    case Feature::elu_plus_one:
      return function(std::integral_constant<Feature, Feature::elu_plus_one>());
    case Feature::relu: return function(std::integral_constant<Feature, Feature::relu>());
    case Feature::unit: return function(std::integral_constant<Feature, Feature::unit>());
    case Feature::exp: return function(std::integral_constant<Feature, Feature::exp>());
    case Feature::exp_pair: return function(std::integral_constant<Feature, Feature::exp_pair>());
    case Feature::softmax_pair:
      return function(std::integral_constant<Feature, Feature::softmax_pair>());
    case Feature::softmax_both:
      return function(std::integral_constant<Feature, Feature::softmax_both>());
    case Feature::exp_centred:
      return function(std::integral_constant<Feature, Feature::exp_centred>());
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
