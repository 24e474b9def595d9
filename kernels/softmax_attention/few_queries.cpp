#include "kernels/softmax_attention/few_queries.h"

#include "kernels/vector/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax_attention/few_queries.cpp"
// clang-format off: the first include repeats the rest of the file.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "kernels/exp/exp-inl.h"
#include "kernels/softmax_attention/head_products-inl.h"
#include "kernels/vector/weigh_rows-inl.h"

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

using softmax_attention::kPartKeys;
using softmax_attention::MergeParams;
using softmax_attention::PartParams;

constexpr float kNoScore = -std::numeric_limits<float>::infinity();

/// kRows scores of one query and head.
template <int kRows, class T>
HWY_INLINE void few_scores(const T* q, const T* k, std::int64_t stride, std::size_t head_dim,
                           float factor, float bias, float* scores) {
  VecF32 sums[kRows];
  head_products<kRows>(q, k, stride, head_dim, sums);
  for (int r = 0; r < kRows; ++r) scores[r] = factor * sum_of_lanes(sums[r]) + bias;
}

/// The scores become e^(s - largest) in place; `count` is a multiple of the vector's length. Gives
/// their sum and the largest. The search for the largest may lose a NaN, which the sum keeps.
HWY_INLINE void raise_scores(float* scores, std::size_t count, float* total, float* largest) {
  const F32 d;
  const std::size_t n = lanes();
  VecF32 maximum = hn::Set(d, kNoScore);
  for (std::size_t j = 0; j < count; j += n) maximum = hn::Max(maximum, hn::Load(d, scores + j));
  *largest = hn::GetLane(hn::MaxOfLanes(d, maximum));
  // All scores are -inf: the weights are zero, not e^(-inf + inf).
  const VecF32 reference = hn::Set(d, *largest == kNoScore ? 0.0F : *largest);
  VecF32 sum = hn::Zero(d);
  for (std::size_t j = 0; j < count; j += n) {
    const VecF32 weight = exp_f32(hn::Sub(hn::Load(d, scores + j), reference));
    hn::Store(weight, d, scores + j);
    sum = hn::Add(sum, weight);
  }
  *total = sum_of_lanes(sum);
}

template <class T>
void few_queries_attend(const PartParams<T>& p) {
  constexpr int kVectors = 4;
  const F32 d32;
  const std::size_t n = lanes();
  const std::int64_t d = p.shape.head_dim;
  const auto head_dim = static_cast<std::size_t>(d);
  const std::int64_t count = p.shape.num_tokens;
  const std::size_t filled = (static_cast<std::size_t>(count) + n - 1) / n * n;
  HWY_ALIGN float scores[kPartKeys];
  for (std::int64_t head = 0; head < p.shape.num_heads; ++head) {
    const T* k = p.k + head * d;
    const T* v = p.v + head * d;
    const float factor = p.factor == nullptr ? 1.0F : p.factor[head];
    const float bias = p.bias == nullptr ? 0.0F : p.bias[head];
    for (std::int64_t row = 0; row < p.rows; ++row) {
      const T* q = p.q + row * p.q_stride + head * d;
      float* sums = p.part + (row * p.shape.num_heads + head) * (d + 2);
      hn::Store(hn::Set(d32, kNoScore), d32, scores + filled - n);
      std::int64_t j = 0;
      for (; j + kProductRows <= count; j += kProductRows)
        few_scores<kProductRows>(q, k + j * p.stride, p.stride, head_dim, factor, bias, scores + j);
      for (; j < count; ++j)
        few_scores<1>(q, k + j * p.stride, p.stride, head_dim, factor, bias, scores + j);
      raise_scores(scores, filled, sums + d, sums + d + 1);
      std::size_t c = 0;
      for (; c + kVectors * n <= head_dim; c += kVectors * n)
        weigh_rows<kVectors>(scores, count, v + c, p.stride, sums + c);
      for (; c + n <= head_dim; c += n) weigh_rows<1>(scores, count, v + c, p.stride, sums + c);
      if (c == head_dim) continue;
      VecF32 sum = hn::Zero(d32);
      for (j = 0; j < count; ++j)
        sum = hn::MulAdd(hn::Set(d32, scores[j]), load_n(v + j * p.stride + c, head_dim - c), sum);
      store_n(sum, sums + c, head_dim - c);
    }
  }
}

/// The factor that brings a part's weights from its own largest score to `reference`.
HWY_INLINE VecF32 part_factor(const float* sums, std::int64_t head_dim, float reference) {
  return exp_f32(hn::Set(F32(), sums[head_dim + 1] - reference));
}

template <class T>
void few_queries_merge(const MergeParams<T>& p) {
  const F32 d32;
  const auto n = static_cast<std::int64_t>(lanes());
  const std::int64_t d = p.head_dim;
  for (std::int64_t row = 0; row < p.rows; ++row) {
    for (std::int64_t head = 0; head < p.num_heads; ++head) {
      const float* sums = p.parts + (row * p.num_heads + head) * (d + 2);
      float largest = kNoScore;
      for (std::int64_t i = 0; i < p.count; ++i) {
        const float of_part = sums[i * p.stride + d + 1];
        if (of_part > largest) largest = of_part;
      }
      const float reference = largest == kNoScore ? 0.0F : largest;
      float total = 0;
      for (std::int64_t i = 0; i < p.count; ++i)
        total +=
            hn::GetLane(part_factor(sums + i * p.stride, d, reference)) * sums[i * p.stride + d];
      const VecF32 share = hn::Set(d32, 1.0F / total);
      T* y = p.y + row * p.y_stride + head * d;
      for (std::int64_t c = 0; c < d; c += n) {
        VecF32 sum = hn::Zero(d32);
        for (std::int64_t i = 0; i < p.count; ++i) {
          const float* of_part = sums + i * p.stride;
          sum = hn::MulAdd(part_factor(of_part, d, reference), take(of_part + c, d - c), sum);
        }
        give(hn::Mul(sum, share), y + c, d - c);
      }
    }
  }
}

HYDRASCOPE_STORED_KERNELS(few_queries_attend, few_queries_attend, PartParams)
HYDRASCOPE_STORED_KERNELS(few_queries_merge, few_queries_merge, MergeParams)

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydrascope::kernels::softmax_attention {

HYDRASCOPE_DISPATCH(attend_part, few_queries_attend, PartParams)
HYDRASCOPE_DISPATCH(merge_parts, few_queries_merge, MergeParams)

}  // namespace hydrascope::kernels::softmax_attention
#endif  // HWY_ONCE
