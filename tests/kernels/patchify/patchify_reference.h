// The naive twin of patchify.h: each element of a patch row by its coordinates in the image.
#pragma once

#include "kernels/patchify/patchify.h"
#include "kernels/patchify/patchify_cuda.h"

#include <vector>

namespace hydrascope::kernels::patchify {

/// What `from_tensor` writes, unrounded: (count, channels * patch_size * patch_size).
template <class T>
std::vector<double> from_tensor_reference(const TensorParams<T>& p) {
  std::vector<double> y;
  for (std::int64_t patch = p.first; patch < p.first + p.count; ++patch) {
    const std::int64_t top = patch / p.grid_columns * p.patch_size;
    const std::int64_t left = patch % p.grid_columns * p.patch_size;
    for (std::int64_t channel = 0; channel < p.channels; ++channel)
      for (std::int64_t i = top; i < top + p.patch_size; ++i)
        for (std::int64_t j = left; j < left + p.patch_size; ++j)
          y.push_back(static_cast<double>(p.tensor[(channel * p.height + i) * p.width + j]));
  }
  return y;
}

/// What `cuda::from_pixels` writes, unrounded: (images, grid_rows * grid_columns, 3 *
/// patch_size^2). The pixels are on the host.
template <class T>
std::vector<double> normalised_pixels_reference(const cuda::PixelParams<T>& p) {
  std::vector<double> y;
  const std::int64_t size = p.patch_size;
  const auto value = [&](std::int64_t image, int channel, std::int64_t i, std::int64_t j) {
    if (i >= p.valid_height || j >= p.valid_width) return 0.0;
    const auto pixel =
        static_cast<double>(p.pixels[image * p.image_bytes + i * p.row_bytes + 3 * j + channel]);
    return pixel * static_cast<double>(p.scale[channel]) + static_cast<double>(p.shift[channel]);
  };
  for (std::int64_t image = 0; image < p.images; ++image)
    for (std::int64_t top = 0; top < p.grid_rows * size; top += size)
      for (std::int64_t left = 0; left < p.grid_columns * size; left += size)
        for (int channel = 0; channel < 3; ++channel)
          for (std::int64_t i = top; i < top + size; ++i)
            for (std::int64_t j = left; j < left + size; ++j)
              y.push_back(value(image, channel, i, j));
  return y;
}

}  // namespace hydrascope::kernels::patchify
