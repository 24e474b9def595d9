// softmax_scores: products of one row of heads with the rows of all tokens.
#include "kernels/attention_map/attention_map.h"
#include "kernels/vector/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_map/head_products.cpp"
// clang-format off: the rest of the file is repeated by the first of these.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "kernels/attention_map/head_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

template <int kRows, class T>
HWY_INLINE void score_rows(const attention_map::SoftmaxScoresParams<T>& p, std::int64_t row) {
  VecF32 sums[kRows];
  const T* k = p.k + row * p.k_stride;
  for (std::int64_t head = 0; head < p.num_heads; ++head) {
    const std::int64_t at = head * p.head_dim;
    head_products<kRows>(p.q + at, k + at, p.k_stride, static_cast<std::size_t>(p.head_dim), sums);
    float* to = p.scores + head * p.score_stride + row;
    for (int r = 0; r < kRows; ++r) to[r] = sum_of_lanes(sums[r]);
  }
}

template <class T>
void softmax_scores_any(const attention_map::SoftmaxScoresParams<T>& p) {
  std::int64_t row = 0;
  for (; row + kProductRows <= p.rows; row += kProductRows) score_rows<kProductRows>(p, row);
  for (; row < p.rows; ++row) score_rows<1>(p, row);
}
HYDRASCOPE_STORED_KERNELS(attention_map_softmax_scores, softmax_scores_any,
                          attention_map::SoftmaxScoresParams)

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydrascope::kernels::attention_map {

HYDRASCOPE_DISPATCH(softmax_scores, attention_map_softmax_scores, SoftmaxScoresParams)

}  // namespace hydrascope::kernels::attention_map
#endif  // HWY_ONCE
