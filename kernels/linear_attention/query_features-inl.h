// The features of a few queries, row after row, as the product of `read_out` reads them, and the
// divisors of their weights: [row][half][F / 2], in bfloat16 words that join feature f with feature
// F / 2 + f.
// Tolerance and test: linear_attention.h. Included after hwy/highway.h, once per instruction set.
#if defined(HYDRASCOPE_KERNELS_LINEAR_ATTENTION_QUERY_FEATURES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_LINEAR_ATTENTION_QUERY_FEATURES_INL_H
#undef HYDRASCOPE_KERNELS_LINEAR_ATTENTION_QUERY_FEATURES_INL_H
#else
#define HYDRASCOPE_KERNELS_LINEAR_ATTENTION_QUERY_FEATURES_INL_H
#endif

#include "kernels/linear_attention/feature_map-inl.h"
#include "kernels/linear_attention/layout.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// One head's queries of a chunk.
template <class T>
struct QueryChunk {
  const T* q;
  std::int64_t stride;
  std::int64_t rows;
  std::int64_t width;
  std::int64_t half;    ///< half of F, rounded up
  std::int64_t padded;  ///< half, padded
  linear_attention::Rule rule;
  const float* z;        ///< two padded halves
  const float* maximum;  ///< two padded halves, in T's unit, -infinity after each
  T* features;           ///< rows 2 * padded apart
  OfRow* of_row;
  float* inverse;  ///< 1 / m
};

/// u of both halves: maps of two parts make them of the same values.
template <Feature kFeature, class T>
HWY_INLINE Pair take_halves(const QueryChunk<T>& c, const T* q, std::int64_t column) {
  if constexpr (linear_attention::parts_of(kFeature) == 2) {
    const VecF32 u = take(q + column, c.width - column);
    return {u, u};
  } else {
    return {take(q + column, c.half - column),
            take(q + c.half + column, c.width - c.half - column)};
  }
}

/// U + M of both halves without the token's shifts, in T's unit; -infinity after the features.
template <class T, Feature kFeature>
HWY_INLINE Pair query_exponents(const QueryChunk<T>& c, Pair u, std::int64_t column) {
  const F32 d;
  constexpr float kFirst = kSlope<kFeature> * kExponentUnit<T>;
  constexpr float kSecond = linear_attention::parts_of(kFeature) == 2 ? -kFirst : kFirst;
  return {hn::MulAdd(u.first, hn::Set(d, kFirst), load(c.maximum + column)),
          hn::MulAdd(u.second, hn::Set(d, kSecond), load(c.maximum + c.padded + column))};
}

/// The subtrahends of a row's exponents: the token's shifts plus the largest shifted exponent.
template <class T, Feature kFeature>
HWY_INLINE OfRow query_shifts(const QueryChunk<T>& c, const T* q) {
  const F32 d;
  VecF32 first = hn::Set(d, -kInfinity);
  VecF32 second = first;
  for (std::int64_t j = 0; j < c.half; j += static_cast<std::int64_t>(lanes())) {
    const Pair u = query_exponents<T, kFeature>(c, take_halves<kFeature>(c, q, j), j);
    first = hn::Max(u.first, first);
    second = hn::Max(u.second, second);
  }
  if constexpr (!kShifts<kFeature>) {
    const float largest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(first, second)));
    return {largest, largest};
  } else {
    const OfRow shift = of_row<kFeature>(q, c.width, c.rule.unit_eps);
    const float of_first = shift.first * kExponentUnit<T>;
    const float of_second = shift.second * kExponentUnit<T>;
    const float a = hn::GetLane(hn::MaxOfLanes(d, first)) - of_first;
    const float b = hn::GetLane(hn::MaxOfLanes(d, second)) - of_second;
    const float largest = a > b ? a : b;
    return {of_first + largest, of_second + largest};
  }
}

/// Stores a vector of both halves; returns the values that the product will read.
HWY_INLINE Pair give_halves(Pair a, bool, float* to, std::int64_t padded) {
  store(a.first, to);
  store(a.second, to + padded);
  return a;
}
HWY_INLINE Pair give_halves(Pair a, bool exponential, BFloat16* to, std::int64_t) {
  return store_rounded(a, exponential, to);
}

/// Features of one row; returns a . z of the stored features.
template <class T, Feature kFeature>
HWY_INLINE float query_row(const QueryChunk<T>& c, const T* q, OfRow row, T* to) {
  const F32 d;
  constexpr bool kExponential = linear_attention::is_exponential(kFeature);
  constexpr std::int64_t kWidth = sizeof(T) == 2 ? 2 : 1;
  const VecF32 of_first = hn::Set(d, row.first);
  const VecF32 of_second = hn::Set(d, row.second);
  VecF32 first = hn::Zero(d);
  VecF32 second = first;
  // The product of float32 passes over the padding of the first half.
  const std::int64_t end = sizeof(T) == 4 ? c.padded : c.half;
  for (std::int64_t j = 0; j < end; j += static_cast<std::int64_t>(lanes())) {
    Pair a = take_halves<kFeature>(c, q, j);
    if constexpr (kExponential) {
      const Pair exponent = query_exponents<T, kFeature>(c, a, j);
      a = {exp_in_unit<T>(hn::Sub(exponent.first, of_first)),
           exp_in_unit<T>(hn::Sub(exponent.second, of_second))};
    } else {
      a = {plain_feature<T, kFeature>(a.first, row.first),
           plain_feature<T, kFeature>(a.second, row.first)};
    }
    a = give_halves(a, kExponential, to + j * kWidth, c.padded);
    first = hn::MulAdd(a.first, load(c.z + j), first);
    second = hn::MulAdd(a.second, load(c.z + c.padded + j), second);
  }
  return sum_of_lanes(hn::Add(first, second));
}

/// All features of the chunk and 1 / m of its rows.
template <class T, Feature kFeature>
HWY_INLINE void query_features(const QueryChunk<T>& c) {
  constexpr bool kExponential = linear_attention::is_exponential(kFeature);
  // Rows one after the other in two passes: their sums over lanes wait for nothing.
  if constexpr (kExponential || kNeedsRow<kFeature>) {
    for (std::int64_t r = 0; r < c.rows; ++r) {
      if constexpr (kExponential) {
        c.of_row[r] = query_shifts<T, kFeature>(c, c.q + r * c.stride);
      } else {
        c.of_row[r] = of_row<kFeature>(c.q + r * c.stride, c.width, c.rule.unit_eps);
      }
    }
  }
  for (std::int64_t r = 0; r < c.rows; ++r) {
    const OfRow row = kExponential || kNeedsRow<kFeature> ? c.of_row[r] : OfRow{0, 0};
    const float m =
        query_row<T, kFeature>(c, c.q + r * c.stride, row, c.features + r * 2 * c.padded);
    if (kExponential) {
      c.inverse[r] = 1 / m;
    } else {
      c.inverse[r] = c.rule.divides() ? 1 / (m + c.rule.normaliser.eps) : 1.0F;
    }
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
