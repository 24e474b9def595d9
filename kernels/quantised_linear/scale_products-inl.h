// From int32 sums to float32: s_i t_o sum_k u_ik w_ok + lo_i t_o sum_k w_ok (quantised_linear.h).
// Included after hwy/highway.h, once per instruction set.
#if defined(HYDRASCOPE_KERNELS_QUANTISED_LINEAR_SCALE_PRODUCTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_QUANTISED_LINEAR_SCALE_PRODUCTS_INL_H
#undef HYDRASCOPE_KERNELS_QUANTISED_LINEAR_SCALE_PRODUCTS_INL_H
#else
#define HYDRASCOPE_KERNELS_QUANTISED_LINEAR_SCALE_PRODUCTS_INL_H
#endif

#include "kernels/linear/panel.h"
#include "kernels/quantised_linear/quantised_linear.h"
#include "kernels/vector/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// products and sums (rows, 64), of x's rows `row` .. row + rows and the panel at `column`.
HWY_INLINE void scale_products(const quantised_linear::Rows& x, std::int64_t row, int rows,
                               const quantised_linear::QuantisedWeight& weight, std::int64_t column,
                               const std::int32_t* products, float* sums) {
  const F32 d;
  const hn::Rebind<std::int32_t, F32> d32;
  const std::size_t n = hn::Lanes(d);
  for (int r = 0; r < rows; ++r) {
    const VecF32 step = hn::Set(d, x.scale[row + r]);
    const VecF32 least = hn::Set(d, x.least[row + r]);
    for (std::size_t c = 0; c < static_cast<std::size_t>(linear::kPanelColumns); c += n) {
      const std::size_t at = static_cast<std::size_t>(r) * linear::kPanelColumns + c;
      const VecF32 product = hn::ConvertTo(d, hn::Load(d32, products + at));
      const VecF32 scale = hn::Mul(step, hn::LoadU(d, weight.scale() + column + c));
      hn::Store(hn::MulAdd(product, scale, hn::Mul(least, hn::LoadU(d, weight.sum() + column + c))),
                d, sums + at);
    }
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
