// Images to rows of patches on CUDA, the input of the patch embedding's matrix product.
//
// Equation: row q of an image holds patch (q / grid_columns, q % grid_columns) in the order
//   (channel, y, x) of the patch convolution's weight (Dosovitskiy et al. 2020, arXiv 2010.11929,
//   equation 1: x_p E). From pixels, a value v of channel c becomes v scale[c] + shift[c]. Values
//   outside valid_height x valid_width, and only these, are 0 whatever shift is: the mean colour.
// Tensors: see the fields; T = float, BFloat16 or Float16; patches of 8, 14, 16 or 32; y aligned to 16
//   bytes, a tensor's rows to 16 (patches of 14: 8); y must not overlap the image. Pixels lie
//   anywhere, fastest where 16 divides their address, row_bytes and image_bytes (then 4, then 1).
// Geometry (patchify_geometry.h): 256 threads; from pixels a block takes a run of patches (16 of 16)
//   of one row of the grid, `patch_size` image rows, through up to 15 KiB of shared memory; from a
//   tensor a thread writes one pack of y.
// Memory: P P 3 bytes read and P P 3 sizeof(T) written per patch, each once (floats: 4 C P P read).
//   ViT-B (P = 16) at 1088x1920 in bfloat16: 6.3 MB + 12.5 MB per image; two FLOPs per element:
//   bound by memory.
// Numerics: float32, v scale + shift with one or two roundings (fused or not), one more to T.
//   Floats are rounded once, to nearest even; NaN stays.
// Tolerance: 6e-7 and a rounding to T; floats exactly that rounding.
// Deterministic: every value depends on one input value.
// Preconditions: as above, 3 (channels) patch_size^2 < 2^31, else Error(internal); pixels beyond
//   valid_* are not read. An empty call launches nothing. A grid that no GPU can launch (2^31
//   patches): Error(internal).
// Test: tests/kernels/patchify/patchify_cuda_test.cpp; twins: patchify_reference.h beside it.
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
  T* y;  ///< (images, grid_rows * grid_columns, 3 * patch_size^2), a row ordered (channel, y, x)
};
template <class T>
void from_pixels(const PixelParams<T>& params, device::Stream stream);

/// A normalised tensor to patch rows.
template <class T>
struct TensorParams {
  const float* tensor;  ///< (images, channels, height, width), contiguous
  std::int64_t images;
  std::int64_t channels;
  std::int64_t height;  ///< at least grid_rows * patch_size; rows beyond are not read
  std::int64_t width;
  std::int64_t grid_rows;
  std::int64_t grid_columns;
  std::int64_t patch_size;
  T* y;  ///< (images, grid_rows * grid_columns, channels * patch_size^2)
};
template <class T>
void from_tensor(const TensorParams<T>& params, device::Stream stream);

}  // namespace hydrascope::kernels::patchify::cuda
