#pragma once

#include "kernels/device/stream.h"
#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::patchify::cuda {

/// Pixels of uint8 to normalised patch rows: value * scale[c] + shift[c], with
/// scale = 1 / (255 std), shift = -mean / std; outside `valid_*` (padding) 0.
template <class T>
struct PixelParams {
  const std::uint8_t* pixels;  ///< (images, height, width, 3)
  std::int64_t row_bytes;
  std::int64_t image_bytes;
  std::int64_t images;
  std::int64_t grid_rows;
  std::int64_t grid_columns;
  std::int64_t patch_size;
  std::int64_t valid_height;  ///< rows and columns that the pixels have; the grid may reach beyond
  std::int64_t valid_width;
  float scale[3];
  float shift[3];
  T* y;  ///< (images, grid_rows * grid_columns, 3 * patch_size^2), a row in the order (channel, y, x)
};
void from_pixels(const PixelParams<float>& params, device::Stream stream);
void from_pixels(const PixelParams<BFloat16>& params, device::Stream stream);
void from_pixels(const PixelParams<Float16>& params, device::Stream stream);

/// A normalised tensor to patch rows.
template <class T>
struct TensorParams {
  const float* tensor;  ///< (images, channels, height, width), contiguous
  std::int64_t images;
  std::int64_t channels;
  std::int64_t height;  ///< at least grid_rows * patch_size; what is beyond is not read
  std::int64_t width;
  std::int64_t grid_rows;
  std::int64_t grid_columns;
  std::int64_t patch_size;
  T* y;  ///< (images, grid_rows * grid_columns, channels * patch_size^2)
};
void from_tensor(const TensorParams<float>& params, device::Stream stream);
void from_tensor(const TensorParams<BFloat16>& params, device::Stream stream);
void from_tensor(const TensorParams<Float16>& params, device::Stream stream);

}  // namespace hydrascope::kernels::patchify::cuda
