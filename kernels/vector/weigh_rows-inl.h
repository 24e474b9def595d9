// A weighted sum of rows, over some vectors of their columns at a time: float32, in the rows' order.
// Tolerance and test: few_queries.h, resize.h. Included after hwy/highway.h, once per instruction set.
#if defined(HYDRASCOPE_KERNELS_VECTOR_WEIGH_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_VECTOR_WEIGH_ROWS_INL_H
#undef HYDRASCOPE_KERNELS_VECTOR_WEIGH_ROWS_INL_H
#else
#define HYDRASCOPE_KERNELS_VECTOR_WEIGH_ROWS_INL_H
#endif

#include "kernels/vector/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// sums = sum_j weights_j x_j over kVectors whole vectors of columns; `count` rows, `stride` apart.
template <int kVectors, class T>
HWY_INLINE void weigh_rows(const float* weights, std::int64_t count, const T* x,
                           std::int64_t stride, float* sums) {
  const F32 d;
  const std::size_t n = lanes();
  VecF32 sum[kVectors];
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
  for (std::int64_t j = 0; j < count; ++j, x += stride) {
    const VecF32 weight = hn::Set(d, weights[j]);
    for (int v = 0; v < kVectors; ++v)
      sum[v] = hn::MulAdd(weight, load(x + static_cast<std::size_t>(v) * n), sum[v]);
  }
  for (int v = 0; v < kVectors; ++v) store(sum[v], sums + static_cast<std::size_t>(v) * n);
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
