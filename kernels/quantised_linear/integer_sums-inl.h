// Turns int32 sums into the numbers that they stand for: s_i t_o sum_k u_ik w_ok + lo_i t_o sum_k
// w_ok. Tolerance and test: quantised_linear.h. Included after hwy/highway.h, once per instruction set.
#if defined(HYDRASCOPE_KERNELS_QUANTISED_LINEAR_INTEGER_SUMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_QUANTISED_LINEAR_INTEGER_SUMS_INL_H
#undef HYDRASCOPE_KERNELS_QUANTISED_LINEAR_INTEGER_SUMS_INL_H
#else
#define HYDRASCOPE_KERNELS_QUANTISED_LINEAR_INTEGER_SUMS_INL_H
#endif

#include "kernels/linear/panel.h"
#include "kernels/vector/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// Integer sums of quantised rows and a panel, read as the numbers that they stand for.
struct IntegerSums {
  struct Row {
    const IntegerSums& all;
    const std::int32_t* sums;
    VecF32 scale;
    VecF32 least;
    /// Columns c .. c + lanes().
    HWY_INLINE VecF32 operator()(std::size_t c) const {
      const F32 d;
      const hn::Rebind<std::int32_t, F32> d32;
      const VecF32 sum = hn::ConvertTo(d, hn::LoadU(d32, sums + c));
      const VecF32 step = hn::Mul(scale, hn::LoadU(d, all.column_scale + c));
      return hn::MulAdd(sum, step, hn::Mul(least, hn::LoadU(d, all.column_sum + c)));
    }
  };
  const std::int32_t* sums;
  const float* scale;  ///< scales of the rows
  const float* least;
  const float* column_scale;  ///< scales of the panel's columns
  const float* column_sum;
  std::int64_t stride = linear::kPanelColumns;
  [[nodiscard]] HWY_INLINE Row row(int r) const {
    return {*this, sums + r * stride, hn::Set(F32(), scale[r]), hn::Set(F32(), least[r])};
  }
};

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
