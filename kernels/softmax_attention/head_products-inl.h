// Products of one row of heads with the same heads of other rows. Tolerance and test: few_queries.h.
// Included after hwy/highway.h, once per instruction set.
#if defined(HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_HEAD_PRODUCTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_HEAD_PRODUCTS_INL_H
#undef HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_HEAD_PRODUCTS_INL_H
#else
#define HYDRASCOPE_KERNELS_SOFTMAX_ATTENTION_HEAD_PRODUCTS_INL_H
#endif

#include "kernels/vector/pair-inl.h"

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// Rows of a pass: the one row that multiplies them is read and converted once for four.
constexpr int kProductRows = 4;

/// Elements of the one row in the order in which load_pair<T> gives the other rows' elements.
template <class T>
HWY_INLINE Pair in_order_of(const float* p) {
  return load_pair_as<T>(p);
}
template <class T>
HWY_INLINE Pair in_order_of(const BFloat16* p) {
  return load_pair(p);
}

/// sums[r]: the product of one head with the same head of row r, a share for each lane.
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
  for (; i < dim; i += n) {  // the rest that fills no pair
    const auto remainder = static_cast<std::int64_t>(dim - i);
    const VecF32 a = take(one + i, remainder);
    for (int r = 0; r < kRows; ++r)
      sums[r] = hn::MulAdd(a, take(rows + r * stride + i, remainder), sums[r]);
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
