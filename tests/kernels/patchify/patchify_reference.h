// The naive twin of patchify.h: each element of a patch row by its coordinates in the image.
#pragma once

#include "kernels/patchify/patchify.h"
#include "kernels/patchify/patchify_cuda.h"

#include <vector>

namespace hydrascope::kernels::patchify {

/// What `from_tensor` writes, unrounded: (count, channels * patch_size * patch_size).
template <class T>
std::vector<double> from_tensor_reference(const float* tensor, std::int64_t channels,
                                          std::int64_t height, std::int64_t width,
                                          const PatchRows<T>& rows);

/// What `cuda::from_pixels` writes, unrounded: (images, grid_rows * grid_columns, 3 *
/// patch_size^2). The pixels are on the host.
template <class T>
std::vector<double> normalised_pixels_reference(const cuda::PixelParams<T>& params);

}  // namespace hydrascope::kernels::patchify
