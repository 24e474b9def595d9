// Images to rows of patches, the input of the patch embedding's matrix product.
#pragma once

#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::patchify {

/// Patches first .. first + count in row-major order of the grid; their rows in y.
template <class T>
struct PatchRows {
  std::int64_t grid_columns;
  std::int64_t patch_size;
  std::int64_t first;
  std::int64_t count;
  T* y;  ///< (count, patch_size * patch_size * channels)
  std::int64_t y_stride;
};

/// Pixels (height, width, 3) of uint8, rows `row_bytes` apart. A row of y holds the raw values
/// 0..255 in the order (y, x, channel): exact in bfloat16; mean, deviation and 1/255 are part of the
/// weight that follows.
void from_pixels(const std::uint8_t* pixels, std::int64_t row_bytes, const PatchRows<float>& rows);
void from_pixels(const std::uint8_t* pixels, std::int64_t row_bytes,
                 const PatchRows<BFloat16>& rows);

/// A tensor (channels, height, width), contiguous; a row of y is in the order (channel, y, x) of the
/// patch convolution's weight.
void from_tensor(const float* tensor, std::int64_t channels, std::int64_t height,
                 std::int64_t width, const PatchRows<float>& rows);
void from_tensor(const float* tensor, std::int64_t channels, std::int64_t height,
                 std::int64_t width, const PatchRows<BFloat16>& rows);

}  // namespace hydrascope::kernels::patchify
