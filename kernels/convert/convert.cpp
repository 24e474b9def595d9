#include "kernels/convert/convert.h"

// foreach_target.h includes this file once per instruction set: it stands before what they compile.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convert/convert.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/convert/convert_run-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

void convert_to_bfloat16(const float* from, BFloat16* to, std::int64_t count) {
  convert_run(F32(), from, to, count);
}
void convert_from_bfloat16(const BFloat16* from, float* to, std::int64_t count) {
  convert_run(F32(), from, to, count);
}
void convert_to_float16(const float* from, std::uint16_t* to, std::int64_t count) {
  convert_run(F32(), from, to, count);
}
void convert_from_float16(const std::uint16_t* from, float* to, std::int64_t count) {
  convert_run(F32(), from, to, count);
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydrascope::kernels {

HWY_EXPORT(convert_to_bfloat16);
HWY_EXPORT(convert_from_bfloat16);
HWY_EXPORT(convert_to_float16);
HWY_EXPORT(convert_from_float16);

namespace convert {

void to_bfloat16(const float* from, BFloat16* to, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(convert_to_bfloat16)(from, to, count);
}
void to_float(const BFloat16* from, float* to, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(convert_from_bfloat16)(from, to, count);
}
void to_float16(const float* from, std::uint16_t* to, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(convert_to_float16)(from, to, count);
}
void to_float(const std::uint16_t* from, float* to, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(convert_from_float16)(from, to, count);
}

}  // namespace convert
}  // namespace hydrascope::kernels
#endif  // HWY_ONCE
