#include "kernels/attention_map/attention_map.h"
#include "kernels/vector/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_map/linear_scores.cpp"
// clang-format off: the rest of the file is repeated by the first of these.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "kernels/linear_attention/feature_map-inl.h"
#include "kernels/linear_attention/layout.h"

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// Keys of one head that are taken through each pass together, so that sums over lanes and
/// logarithms of one row wait for no other row.
constexpr std::int64_t kScoreRows = 64;

/// One head.
template <class T>
struct ScoredHead {
  const T* q;
  const T* k;  ///< of the chunk's first row
  std::int64_t stride;
  std::int64_t rows;
  std::int64_t width;
  OfRow of_q;
  OfRow of_k[kScoreRows];
  float* scores;
};

/// Both parts' exponents of a pair are those of x = q + k: slope x - first, -slope x - second, with
/// the sums of the tokens' shifts. `reference` of a row is the largest of them.
template <Feature kFeature, class T>
HWY_INLINE void largest_exponents(const ScoredHead<T>& h, float* reference) {
  const F32 d;
  constexpr bool kTwoParts = linear_attention::parts_of(kFeature) == 2;
  constexpr float kBy = kSlope<kFeature>;
  for (std::int64_t r = 0; r < h.rows; ++r) {
    const T* k = h.k + r * h.stride;
    VecF32 maximum = hn::Set(d, -kInfinity);
    VecF32 minimum = hn::Set(d, kInfinity);
    for (std::int64_t j = 0; j < h.width; j += static_cast<std::int64_t>(lanes())) {
      const std::int64_t count = h.width - j;
      const VecF32 x = hn::Add(take(h.q + j, count), take(k + j, count));
      maximum = hn::Max(maximum, first_or(x, count, -kInfinity));
      if constexpr (kTwoParts) minimum = hn::Min(minimum, first_or(x, count, kInfinity));
    }
    float largest =
        kBy * hn::GetLane(hn::MaxOfLanes(d, maximum)) - (h.of_q.first + h.of_k[r].first);
    if constexpr (kTwoParts) {
      const float second =
          -kBy * hn::GetLane(hn::MinOfLanes(d, minimum)) - (h.of_q.second + h.of_k[r].second);
      if (second > largest) largest = second;
    }
    // Where every feature is zero, -inf - 0 still gives zeros, and their logarithm -inf.
    reference[r] = largest == -kInfinity ? 0 : largest;
  }
}

/// Sums of e^(exponent - reference). A NaN that the search for the largest lost is found here.
template <Feature kFeature, class T>
HWY_INLINE void sum_exponentials(const ScoredHead<T>& h, const float* reference, float* sums) {
  const F32 d;
  constexpr bool kTwoParts = linear_attention::parts_of(kFeature) == 2;
  const VecF32 slope = hn::Set(d, kSlope<kFeature>);
  for (std::int64_t r = 0; r < h.rows; ++r) {
    const T* k = h.k + r * h.stride;
    const VecF32 first = hn::Set(d, h.of_q.first + h.of_k[r].first + reference[r]);
    const VecF32 second = hn::Set(d, h.of_q.second + h.of_k[r].second + reference[r]);
    VecF32 sum = hn::Zero(d);
    for (std::int64_t j = 0; j < h.width; j += static_cast<std::int64_t>(lanes())) {
      const std::int64_t count = h.width - j;
      const VecF32 x = hn::Add(take(h.q + j, count), take(k + j, count));
      VecF32 b = exp_f32(hn::MulSub(x, slope, first));
      if constexpr (kTwoParts) b = hn::Add(b, exp_f32(hn::NegMulSub(x, slope, second)));
      sum = hn::Add(sum, first_or(b, count, 0));
    }
    sums[r] = sum_of_lanes(sum);
  }
}

/// phi(q) . phi(k) of kRows rows, which share the features of q.
template <int kRows, Feature kFeature, class T>
HWY_INLINE void feature_products(const ScoredHead<T>& h, std::int64_t row) {
  const F32 d;
  const T* k = h.k + row * h.stride;
  VecF32 sums[kRows];
  for (int r = 0; r < kRows; ++r) sums[r] = hn::Zero(d);
  for (std::int64_t j = 0; j < h.width; j += static_cast<std::int64_t>(lanes())) {
    const std::int64_t count = h.width - j;
    // Maps need not give 0 of the zeros after a row: a has to be told where the row ends.
    const VecF32 a =
        first_or(plain_feature<float, kFeature>(take(h.q + j, count), h.of_q.first), count, 0);
    for (int r = 0; r < kRows; ++r) {
      const VecF32 u = take(k + r * h.stride + j, count);
      sums[r] = hn::MulAdd(a, plain_feature<float, kFeature>(u, h.of_k[row + r].first), sums[r]);
    }
  }
  for (int r = 0; r < kRows; ++r) h.scores[row + r] = sum_of_lanes(sums[r]);
}

template <Feature kFeature, class T>
void linear_scores_of(const attention_map::LinearScoresParams<T>& p) {
  constexpr bool kExponential = linear_attention::is_exponential(kFeature);
  constexpr int kRows = 4;
  const linear_attention::Shape& shape = p.shape;
  const float of_prefix = kExponential ? logf(p.prefix_weight) : p.prefix_weight;
  const float of_patch = kExponential ? logf(p.patch_weight) : p.patch_weight;
  float reference[kScoreRows];
  float sums[kScoreRows];
  ScoredHead<T> h;
  for (std::int64_t r = 0; r < kScoreRows; ++r) h.of_k[r] = {0, 0};
  h.stride = p.k_stride;
  h.width = shape.width;
  for (std::int64_t head = 0; head < shape.num_heads; ++head) {
    h.q = p.q + head * shape.width;
    h.of_q = of_row<kFeature>(h.q, shape.width, shape.unit_eps);
    for (std::int64_t first = 0; first < p.rows; first += kScoreRows) {
      h.k = p.k + first * p.k_stride + head * shape.width;
      h.rows = p.rows - first < kScoreRows ? p.rows - first : kScoreRows;
      h.scores = p.scores + head * p.score_stride + first;
      if constexpr (kNeedsRow<kFeature>) {
        for (std::int64_t r = 0; r < h.rows; ++r)
          h.of_k[r] = of_row<kFeature>(h.k + r * h.stride, shape.width, shape.unit_eps);
      }
      if constexpr (kExponential) {
        largest_exponents<kFeature>(h, reference);
        sum_exponentials<kFeature>(h, reference, sums);
        for (std::int64_t r = 0; r < h.rows; ++r)
          h.scores[r] =
              reference[r] + logf(sums[r]) + (first + r < p.num_prefix ? of_prefix : of_patch);
      } else {
        std::int64_t r = 0;
        for (; r + kRows <= h.rows; r += kRows) feature_products<kRows, kFeature>(h, r);
        for (; r < h.rows; ++r) feature_products<1, kFeature>(h, r);
        for (r = 0; r < h.rows; ++r) h.scores[r] *= first + r < p.num_prefix ? of_prefix : of_patch;
      }
    }
  }
}

template <class T>
void linear_scores_any(const attention_map::LinearScoresParams<T>& p) {
  with_feature(p.shape.feature, [&](auto feature) { linear_scores_of<feature>(p); });
}

HYDRASCOPE_STORED_KERNELS(attention_map_linear_scores, linear_scores_any,
                          attention_map::LinearScoresParams)

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydrascope::kernels::attention_map {

HYDRASCOPE_DISPATCH(linear_scores, attention_map_linear_scores, LinearScoresParams)

}  // namespace hydrascope::kernels::attention_map
#endif  // HWY_ONCE
