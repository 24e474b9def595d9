// normalise and mean_over_heads: what is done to the scores of all tokens, by one thread.
#include "kernels/attention_map/attention_map.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_map/weights.cpp"
// clang-format off: the rest of the file is repeated by the first of these.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "kernels/exp/exp-inl.h"

#include <cstddef>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// Values of a partial sum: a chain over 32401 tokens would lose two more digits.
constexpr std::int64_t kSumBlock = 1024;

/// A NaN among them may be lost: its weight is NaN all the same.
HWY_INLINE float largest_of(const float* scores, std::int64_t count) {
  const F32 d;
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  VecF32 maximum = hn::Set(d, kLowest);
  for (std::int64_t t = 0; t < count; t += static_cast<std::int64_t>(lanes()))
    maximum = hn::Max(maximum, first_or(take(scores + t, count - t), count - t, kLowest));
  return hn::GetLane(hn::MaxOfLanes(d, maximum));
}

/// e^(s - reference) in place; returns their sum.
HWY_INLINE float raise_and_sum(float* scores, std::int64_t count, float reference) {
  const F32 d;
  const VecF32 of_all = hn::Set(d, reference);
  float total = 0;
  for (std::int64_t begin = 0; begin < count; begin += kSumBlock) {
    const std::int64_t end = count - begin < kSumBlock ? count : begin + kSumBlock;
    VecF32 sum = hn::Zero(d);
    for (std::int64_t t = begin; t < end; t += static_cast<std::int64_t>(lanes())) {
      const VecF32 s =
          first_or(take(scores + t, end - t), end - t, -std::numeric_limits<float>::infinity());
      const VecF32 weight = exp_f32(hn::Sub(s, of_all));
      sum = hn::Add(sum, weight);
      give(weight, scores + t, end - t);
    }
    total += sum_of_lanes(sum);
  }
  return total;
}

HWY_INLINE float sum_of(const float* scores, std::int64_t count) {
  const F32 d;
  float total = 0;
  for (std::int64_t begin = 0; begin < count; begin += kSumBlock) {
    const std::int64_t end = count - begin < kSumBlock ? count : begin + kSumBlock;
    VecF32 sum = hn::Zero(d);
    for (std::int64_t t = begin; t < end; t += static_cast<std::int64_t>(lanes()))
      sum = hn::Add(sum, take(scores + t, end - t));
    total += sum_of_lanes(sum);
  }
  return total;
}

HWY_INLINE void multiply(float* scores, std::int64_t count, float by) {
  const VecF32 factor = hn::Set(F32(), by);
  for (std::int64_t t = 0; t < count; t += static_cast<std::int64_t>(lanes()))
    give(hn::Mul(take(scores + t, count - t), factor), scores + t, count - t);
}

void attention_map_normalise(float* scores, std::int64_t score_stride, std::int64_t num_heads,
                             std::int64_t num_tokens, attention_map::Weights rule, float eps) {
  if (rule == attention_map::Weights::raw) return;
  for (std::int64_t head = 0; head < num_heads; ++head, scores += score_stride) {
    // One head after the other: its scores stay in L2 between the passes.
    const float sum = rule == attention_map::Weights::softmax
                          ? raise_and_sum(scores, num_tokens, largest_of(scores, num_tokens))
                          : sum_of(scores, num_tokens) + eps;
    multiply(scores, num_tokens, 1 / sum);
  }
}

void attention_map_mean_over_heads(const float* weights, std::int64_t weight_stride,
                                   std::int64_t num_heads, std::int64_t rows, float* heat) {
  const F32 d;
  const VecF32 share = hn::Set(d, 1 / static_cast<float>(num_heads));
  for (std::int64_t t = 0; t < rows; t += static_cast<std::int64_t>(lanes())) {
    VecF32 sum = hn::Zero(d);
    const float* of_head = weights + t;
    for (std::int64_t head = 0; head < num_heads; ++head, of_head += weight_stride)
      sum = hn::Add(sum, take(of_head, rows - t));
    give(hn::Mul(sum, share), heat + t, rows - t);
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydrascope::kernels {

HWY_EXPORT(attention_map_normalise);
HWY_EXPORT(attention_map_mean_over_heads);

namespace attention_map {

void normalise(float* scores, std::int64_t score_stride, std::int64_t num_heads,
               std::int64_t num_tokens, Weights rule, float eps) {
  HWY_DYNAMIC_DISPATCH(attention_map_normalise)
  (scores, score_stride, num_heads, num_tokens, rule, eps);
}

void mean_over_heads(const float* weights, std::int64_t weight_stride, std::int64_t num_heads,
                     std::int64_t rows, float* heat) {
  HWY_DYNAMIC_DISPATCH(attention_map_mean_over_heads)
  (weights, weight_stride, num_heads, rows, heat);
}

}  // namespace attention_map
}  // namespace hydrascope::kernels
#endif  // HWY_ONCE
