#include "kernels/patchify/patchify.h"

// One type for every instruction set: this part of the file is compiled once.
#ifndef HYDRASCOPE_KERNELS_PATCHIFY_SOURCE
#define HYDRASCOPE_KERNELS_PATCHIFY_SOURCE
namespace hydrascope::kernels::patchify {

/// An image as planes of rows: pixels are one plane whose elements are channels side by side.
template <class From>
struct Source {
  const From* image;
  std::int64_t planes;
  std::int64_t plane_stride;
  std::int64_t row_stride;
  std::int64_t channels;  ///< elements of a pixel within its row
};

}  // namespace hydrascope::kernels::patchify
#endif

// foreach_target.h includes this file once per instruction set: it stands before what they compile.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/patchify/patchify.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/convert/convert_run-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

/// Patch by patch: y is written front to back, and the next patch goes on where this one stopped
/// reading in each of its image rows.
template <class From, class T>
HWY_INLINE void patch_rows(const patchify::Source<From>& s, const patchify::PatchRows<T>& p) {
  const std::int64_t run = p.patch_size * s.channels;
  T* row = p.y;
  for (std::int64_t q = p.first; q < p.first + p.count; ++q, row += p.y_stride) {
    const From* patch =
        s.image + q / p.grid_columns * p.patch_size * s.row_stride + q % p.grid_columns * run;
    T* y = row;
    for (std::int64_t plane = 0; plane < s.planes; ++plane) {
      const From* line = patch + plane * s.plane_stride;
      for (std::int64_t i = 0; i < p.patch_size; ++i, line += s.row_stride, y += run)
        convert_run(F32(), line, y, run);
    }
  }
}

void pixels_to_float32(const patchify::Source<std::uint8_t>& s,
                       const patchify::PatchRows<float>& p) {
  patch_rows(s, p);
}
void pixels_to_bfloat16(const patchify::Source<std::uint8_t>& s,
                        const patchify::PatchRows<BFloat16>& p) {
  patch_rows(s, p);
}
void tensor_to_float32(const patchify::Source<float>& s, const patchify::PatchRows<float>& p) {
  patch_rows(s, p);
}
void tensor_to_bfloat16(const patchify::Source<float>& s, const patchify::PatchRows<BFloat16>& p) {
  patch_rows(s, p);
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydrascope::kernels {

HWY_EXPORT(pixels_to_float32);
HWY_EXPORT(pixels_to_bfloat16);
HWY_EXPORT(tensor_to_float32);
HWY_EXPORT(tensor_to_bfloat16);

namespace patchify {

void from_pixels(const std::uint8_t* pixels, std::int64_t row_bytes, const PatchRows<float>& rows) {
  HWY_DYNAMIC_DISPATCH(pixels_to_float32)({pixels, 1, 0, row_bytes, 3}, rows);
}
void from_pixels(const std::uint8_t* pixels, std::int64_t row_bytes,
                 const PatchRows<BFloat16>& rows) {
  HWY_DYNAMIC_DISPATCH(pixels_to_bfloat16)({pixels, 1, 0, row_bytes, 3}, rows);
}
void from_tensor(const float* tensor, std::int64_t channels, std::int64_t height,
                 std::int64_t width, const PatchRows<float>& rows) {
  HWY_DYNAMIC_DISPATCH(tensor_to_float32)({tensor, channels, height * width, width, 1}, rows);
}
void from_tensor(const float* tensor, std::int64_t channels, std::int64_t height,
                 std::int64_t width, const PatchRows<BFloat16>& rows) {
  HWY_DYNAMIC_DISPATCH(tensor_to_bfloat16)({tensor, channels, height * width, width, 1}, rows);
}

}  // namespace patchify
}  // namespace hydrascope::kernels
#endif  // HWY_ONCE
