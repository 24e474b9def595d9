#include "tests/kernels/gelu/gelu_array.h"

// foreach_target.h includes this file once per instruction set: it stands before what they compile.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/gelu/gelu_array.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/gelu/gelu-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

template <class T>
HWY_INLINE void gelu_of(const float* x, T* y, std::int64_t count) {
  const auto n = static_cast<std::int64_t>(lanes());
  std::int64_t i = 0;
  for (; i + n <= count; i += n) store(gelu<T>(load(x + i)), y + i);
  if (i < count) {
    const auto rest = static_cast<std::size_t>(count - i);
    store_n(gelu<T>(load_n(x + i, rest)), y + i, rest);
  }
}

void gelu_float32(const float* x, float* y, std::int64_t count) { gelu_of(x, y, count); }
void gelu_bfloat16(const float* x, BFloat16* y, std::int64_t count) { gelu_of(x, y, count); }

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydrascope::kernels {

HWY_EXPORT(gelu_float32);
HWY_EXPORT(gelu_bfloat16);

namespace gelu {

void gelu(const float* x, float* y, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(gelu_float32)(x, y, count);
}
void gelu(const float* x, BFloat16* y, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(gelu_bfloat16)(x, y, count);
}

}  // namespace gelu
}  // namespace hydrascope::kernels
#endif  // HWY_ONCE
