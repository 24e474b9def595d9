// The features of a chunk of keys, one column of vectors after the other, as the product of
// `accumulate` reads them: [token][part][w], in bfloat16 [token / 2][part][w][2]. A word of two
// tokens needs no shuffle: both lie in the same lane. On the way: z, and for exponents the maximum
// of each feature and the factor that it changes S by. Tolerance and test: linear_attention.h. Included
// after hwy/highway.h, once per instruction set.
#if defined(HYDRASCOPE_KERNELS_LINEAR_ATTENTION_KEY_FEATURES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_LINEAR_ATTENTION_KEY_FEATURES_INL_H
#undef HYDRASCOPE_KERNELS_LINEAR_ATTENTION_KEY_FEATURES_INL_H
#else
#define HYDRASCOPE_KERNELS_LINEAR_ATTENTION_KEY_FEATURES_INL_H
#endif

#include "kernels/linear_attention/feature_map-inl.h"
#include "kernels/linear_attention/layout.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// One head's keys of a chunk.
template <class T>
struct KeyChunk {
  const T* k;
  std::int64_t stride;
  std::int64_t rows;
  std::int64_t width;
  std::int64_t num_prefix;  ///< leading rows of the chunk
  float prefix_weight;
  float patch_weight;
  float unit_eps;
  OfRow* of_row;
  T* features;
  std::int64_t step;       ///< padded features of a token
  std::int64_t part_step;  ///< from the first part to the second
  float* z;
  float* maximum;
  float* factors;

  [[nodiscard]] HWY_INLINE float weight(std::int64_t row) const {
    return row < num_prefix ? prefix_weight : patch_weight;
  }
};

/// M of a column before and after this chunk, for both parts; M before may be -infinity.
struct Maxima {
  VecF32 before[2];
  VecF32 after[2];
};

template <class T, Feature kFeature>
HWY_INLINE Maxima raised_maxima(const KeyChunk<T>& c, std::int64_t column) {
  const F32 d;
  constexpr std::int64_t kParts = linear_attention::parts_of(kFeature);
  const std::int64_t count = c.width - column;
  const VecF32 slope = hn::Set(d, kSlope<kFeature>);
  VecF32 up = hn::Set(d, -kInfinity);
  VecF32 down = up;
  const T* k = c.k + column;
  for (std::int64_t r = 0; r < c.rows; ++r, k += c.stride) {
    const VecF32 u = take(k, count);
    if constexpr (kShifts<kFeature>) {
      up = hn::Max(hn::MulSub(u, slope, hn::Set(d, c.of_row[r].first)), up);
      down = hn::Max(hn::NegMulSub(u, slope, hn::Set(d, c.of_row[r].second)), down);
    } else {
      up = hn::Max(u, up);
      if constexpr (kParts == 2) down = hn::Max(hn::Neg(u), down);
    }
  }
  Maxima m;
  m.before[0] = take(c.maximum + column, count);
  m.after[0] = hn::Max(m.before[0], up);
  m.before[1] = kParts == 2 ? take(c.maximum + c.width + column, count) : m.before[0];
  m.after[1] = hn::Max(m.before[1], down);
  return m;
}

/// The exponent of a feature, in T's unit.
template <class T, Feature kFeature>
HWY_INLINE VecF32 key_exponent(VecF32 u, VecF32 offset, int part, OfRow of_row) {
  const F32 d;
  const VecF32 slope =
      hn::Set(d, (part == 0 ? kSlope<kFeature> : -kSlope<kFeature>)*kExponentUnit<T>);
  if constexpr (kShifts<kFeature>)
    offset =
        hn::Sub(offset, hn::Set(d, (part == 0 ? of_row.first : of_row.second) * kExponentUnit<T>));
  return hn::MulAdd(u, slope, offset);
}

/// Stores the features of two tokens (float32: side by side, `step` apart) and adds them to z as
/// the product will read them.
HWY_INLINE VecF32 give_features(VecF32 b0, VecF32 b1, bool, float* to, std::int64_t step,
                                bool whole, VecF32 z) {
  store(b0, to);
  if (!whole) return hn::Add(z, b0);
  store(b1, to + step);
  return hn::Add(z, hn::Add(b0, b1));
}
HWY_INLINE VecF32 give_features(VecF32 b0, VecF32 b1, bool exponential, BFloat16* to, std::int64_t,
                                bool, VecF32 z) {
  const Pair rounded = store_rounded({b0, b1}, exponential, to);
  return hn::Add(z, hn::Add(rounded.first, rounded.second));
}

/// One column of features, of all tokens of the chunk.
template <class T, Feature kFeature>
HWY_INLINE void key_column(const KeyChunk<T>& c, std::int64_t column, bool weighted) {
  const F32 d;
  constexpr bool kExponential = linear_attention::is_exponential(kFeature);
  constexpr int kParts = static_cast<int>(linear_attention::parts_of(kFeature));
  // Words of bfloat16 hold two tokens.
  const std::int64_t pair_step = 2 * c.step;
  constexpr std::int64_t kWidth = sizeof(T) == 2 ? 2 : 1;
  const std::int64_t count = c.width - column;
  VecF32 offset[2] = {hn::Zero(d), hn::Zero(d)};
  VecF32 z[2] = {hn::Zero(d), hn::Zero(d)};
  if constexpr (kExponential) {
    const Maxima m = raised_maxima<T, kFeature>(c, column);
    for (int part = 0; part < kParts; ++part) {
      offset[part] = hn::Mul(m.after[part], hn::Set(d, -kExponentUnit<T>));
      // Nothing was summed up to a maximum of -infinity.
      const VecF32 factor =
          hn::IfThenElse(hn::Eq(m.before[part], hn::Set(d, -kInfinity)), hn::Set(d, 1.0F),
                         exp_f32(hn::Sub(m.before[part], m.after[part])));
      store(factor, c.factors + part * c.part_step + column);
      give(m.after[part], c.maximum + part * c.width + column, count);
    }
  }
  const T* k = c.k + column;
  T* to = c.features + column * kWidth;
  for (std::int64_t r = 0; r < c.rows; r += 2, k += 2 * c.stride, to += pair_step) {
    const bool whole = r + 1 < c.rows;
    const VecF32 u0 = take(k, count);
    const VecF32 u1 = whole ? take(k + c.stride, count) : hn::Zero(d);
    const OfRow row0 = kNeedsRow<kFeature> ? c.of_row[r] : OfRow{0, 0};
    const OfRow row1 = kNeedsRow<kFeature> && whole ? c.of_row[r + 1] : OfRow{0, 0};
    for (int part = 0; part < kParts; ++part) {
      VecF32 b0;
      VecF32 b1;
      if constexpr (kExponential) {
        b0 = exp_in_unit<T>(key_exponent<T, kFeature>(u0, offset[part], part, row0));
        b1 = exp_in_unit<T>(key_exponent<T, kFeature>(u1, offset[part], part, row1));
      } else {
        b0 = plain_feature<T, kFeature>(u0, row0.first);
        b1 = plain_feature<T, kFeature>(u1, row1.first);
      }
      if (weighted) {
        b0 = hn::Mul(b0, hn::Set(d, c.weight(r)));
        b1 = hn::Mul(b1, hn::Set(d, c.weight(r + 1)));
      }
      if (!whole) b1 = hn::Zero(d);
      z[part] = give_features(b0, b1, kExponential, to + part * c.part_step * kWidth, c.step, whole,
                              z[part]);
    }
  }
  for (int part = 0; part < kParts; ++part) {
    float* sum = c.z + part * c.width + column;
    VecF32 before = take(sum, count);
    if constexpr (kExponential)
      before = hn::Mul(before, load(c.factors + part * c.part_step + column));
    give(hn::Add(before, z[part]), sum, count);
  }
}

/// All features of the chunk.
template <class T, Feature kFeature>
HWY_INLINE void key_features(const KeyChunk<T>& c) {
  if constexpr (kNeedsRow<kFeature>) {
    for (std::int64_t r = 0; r < c.rows; ++r)
      c.of_row[r] = of_row<kFeature>(c.k + r * c.stride, c.width, c.unit_eps);
  }
  const bool weighted = !(c.prefix_weight == 1 && c.patch_weight == 1);
  for (std::int64_t column = 0; column < c.width; column += static_cast<std::int64_t>(lanes()))
    key_column<T, kFeature>(c, column, weighted);
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
