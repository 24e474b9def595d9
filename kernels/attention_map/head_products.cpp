// softmax_scores and value_heat: products of one row of heads with the rows of all tokens.
#include "kernels/attention_map/attention_map.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_map/head_products.cpp"
// clang-format off: the rest of the file is repeated by the first of these.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "kernels/vector/pair-inl.h"

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// Rows a pass: the one row they are multiplied by is read and converted once for four.
constexpr int kProductRows = 4;

/// Elements of the one row in the order that load_pair<T> gives the others in.
template <class T>
HWY_INLINE Pair in_order_of(const float* p) {
  return load_pair_as<T>(p);
}
template <class T>
HWY_INLINE Pair in_order_of(const BFloat16* p) {
  return load_pair(p);
}

/// sums[r]: the product of one head with that head of row r, a lane's share each.
template <int kRows, class One, class T>
HWY_INLINE void head_products(const One* one, const T* rows, std::int64_t stride, std::size_t dim,
                              VecF32* sums) {
  const std::size_t n = lanes();
  for (int r = 0; r < kRows; ++r) sums[r] = hn::Zero(F32());
  std::size_t i = 0;
  for (; i + 2 * n <= dim; i += 2 * n) {
    const Pair a = in_order_of<T>(one + i);
    for (int r = 0; r < kRows; ++r) {
      const Pair b = load_pair(rows + r * stride + i);
      sums[r] = hn::MulAdd(a.first, b.first, sums[r]);
      sums[r] = hn::MulAdd(a.second, b.second, sums[r]);
    }
  }
  for (; i < dim; i += n) {  // what fills no pair
    const std::size_t rest = dim - i;
    const bool whole = rest >= n;
    const VecF32 a = whole ? load(one + i) : load_n(one + i, rest);
    for (int r = 0; r < kRows; ++r) {
      const T* row = rows + r * stride + i;
      sums[r] = hn::MulAdd(a, whole ? load(row) : load_n(row, rest), sums[r]);
    }
  }
}

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

/// Lanes are summed once per row, after all heads.
template <int kRows, class T>
HWY_INLINE void heat_rows(const attention_map::ValueHeatParams<T>& p, std::int64_t row) {
  const F32 d;
  VecF32 sums[kRows];
  VecF32 heat[kRows];
  for (int r = 0; r < kRows; ++r) heat[r] = hn::Zero(d);
  const T* v = p.v + row * p.v_stride;
  for (std::int64_t head = 0; head < p.num_heads; ++head) {
    const std::int64_t at = head * p.head_dim;
    head_products<kRows>(p.gradient + at, v + at, p.v_stride, static_cast<std::size_t>(p.head_dim),
                         sums);
    const float* weights = p.weights + head * p.weight_stride + row;
    for (int r = 0; r < kRows; ++r) heat[r] = hn::MulAdd(sums[r], hn::Set(d, weights[r]), heat[r]);
  }
  for (int r = 0; r < kRows; ++r) p.heat[row + r] = sum_of_lanes(heat[r]);
}

template <class T>
void softmax_scores_any(const attention_map::SoftmaxScoresParams<T>& p) {
  std::int64_t row = 0;
  for (; row + kProductRows <= p.rows; row += kProductRows) score_rows<kProductRows>(p, row);
  for (; row < p.rows; ++row) score_rows<1>(p, row);
}
template <class T>
void value_heat_any(const attention_map::ValueHeatParams<T>& p) {
  std::int64_t row = 0;
  for (; row + kProductRows <= p.rows; row += kProductRows) heat_rows<kProductRows>(p, row);
  for (; row < p.rows; ++row) heat_rows<1>(p, row);
}

void attention_map_softmax_scores_float32(const attention_map::SoftmaxScoresParams<float>& p) {
  softmax_scores_any(p);
}
void attention_map_softmax_scores_bfloat16(const attention_map::SoftmaxScoresParams<BFloat16>& p) {
  softmax_scores_any(p);
}
void attention_map_value_heat_float32(const attention_map::ValueHeatParams<float>& p) {
  value_heat_any(p);
}
void attention_map_value_heat_bfloat16(const attention_map::ValueHeatParams<BFloat16>& p) {
  value_heat_any(p);
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydrascope::kernels {

HWY_EXPORT(attention_map_softmax_scores_float32);
HWY_EXPORT(attention_map_softmax_scores_bfloat16);
HWY_EXPORT(attention_map_value_heat_float32);
HWY_EXPORT(attention_map_value_heat_bfloat16);

namespace attention_map {

void softmax_scores(const SoftmaxScoresParams<float>& params) {
  HWY_DYNAMIC_DISPATCH(attention_map_softmax_scores_float32)(params);
}
void softmax_scores(const SoftmaxScoresParams<BFloat16>& params) {
  HWY_DYNAMIC_DISPATCH(attention_map_softmax_scores_bfloat16)(params);
}

void value_heat(const ValueHeatParams<float>& params) {
  HWY_DYNAMIC_DISPATCH(attention_map_value_heat_float32)(params);
}
void value_heat(const ValueHeatParams<BFloat16>& params) {
  HWY_DYNAMIC_DISPATCH(attention_map_value_heat_bfloat16)(params);
}

}  // namespace attention_map
}  // namespace hydrascope::kernels
#endif  // HWY_ONCE
