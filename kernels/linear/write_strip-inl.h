// The epilogue behind the micro-kernel: bias, GELU or residual, then one rounding into y. Tolerance
// and test: linear.h, gelu-inl.h. Included after hwy/highway.h, once per instruction set.
#if defined(HYDRASCOPE_KERNELS_LINEAR_WRITE_STRIP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HYDRASCOPE_KERNELS_LINEAR_WRITE_STRIP_INL_H
#undef HYDRASCOPE_KERNELS_LINEAR_WRITE_STRIP_INL_H
#else
#define HYDRASCOPE_KERNELS_LINEAR_WRITE_STRIP_INL_H
#endif

#include "kernels/gelu/gelu-inl.h"
#include "kernels/linear/linear.h"
#include "kernels/vector/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

template <class Gelu>
HWY_INLINE VecF32 finish(VecF32 sum, linear::Epilogue epilogue, const VecF32 old) {
  switch (epilogue) {
    case linear::Epilogue::gelu: return gelu<Gelu>(sum);
    case linear::Epilogue::add: return hn::Add(old, sum);
    default: return sum;
  }
}

/// Sums of the micro-kernel, rows `stride` apart.
struct FloatSums {
  struct Row {
    const float* sums;
    /// Columns c .. c + lanes().
    HWY_INLINE VecF32 operator()(std::size_t c) const { return hn::LoadU(F32(), sums + c); }
  };
  const float* sums;
  std::int64_t stride = linear::kPanelColumns;
  [[nodiscard]] HWY_INLINE Row row(int r) const { return {sums + r * stride}; }
};

/// Reads ahead what write_strip adds to: while the sums are computed it comes from behind the caches.
template <linear::Epilogue kEpilogue, class T>
HWY_INLINE void prefetch_strip(int rows, const T* y, std::int64_t y_stride, std::size_t columns) {
  if constexpr (kEpilogue == linear::Epilogue::add)
    for (int r = 0; r < rows; ++r, y += y_stride)
      prefetch_row(y, static_cast<std::int64_t>(columns));
}

/// Rounds one strip of sums into y. GELU is as exact as numbers of the type Gelu need.
template <class T, linear::Epilogue kEpilogue, class Gelu = T, class Sums>
HWY_INLINE void write_strip(const Sums& sums, int rows, const float* bias, T* y,
                            std::int64_t y_stride, std::size_t columns) {
  const F32 d;
  const std::size_t n = hn::Lanes(d);
  constexpr bool kAdd = kEpilogue == linear::Epilogue::add;
  for (int r = 0; r < rows; ++r, y += y_stride) {
    const auto row = sums.row(r);
    std::size_t c = 0;
    for (; c + n <= columns; c += n) {
      VecF32 sum = row(c);
      if (bias != nullptr) sum = hn::Add(sum, hn::LoadU(d, bias + c));
      store(finish<Gelu>(sum, kEpilogue, kAdd ? load(y + c) : sum), y + c);
    }
    if (c < columns) {
      const std::size_t remainder = columns - c;
      VecF32 sum = row(c);
      if (bias != nullptr) sum = hn::Add(sum, load_n(bias + c, remainder));
      store_n(finish<Gelu>(sum, kEpilogue, kAdd ? load_n(y + c, remainder) : sum), y + c,
              remainder);
    }
  }
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
