#include "kernels/patchify/patchify_reference.h"

namespace hydrascope::kernels::patchify {

template <class T>
std::vector<double> from_pixels_reference(const std::uint8_t* pixels, std::int64_t row_bytes,
                                          const PatchRows<T>& p) {
  std::vector<double> y;
  for (std::int64_t patch = p.first; patch < p.first + p.count; ++patch) {
    const std::int64_t top = patch / p.grid_columns * p.patch_size;
    const std::int64_t left = patch % p.grid_columns * p.patch_size;
    for (std::int64_t i = top; i < top + p.patch_size; ++i)
      for (std::int64_t j = left; j < left + p.patch_size; ++j)
        for (std::int64_t channel = 0; channel < 3; ++channel)
          y.push_back(pixels[i * row_bytes + 3 * j + channel]);
  }
  return y;
}

template <class T>
std::vector<double> from_tensor_reference(const float* tensor, std::int64_t channels,
                                          std::int64_t height, std::int64_t width,
                                          const PatchRows<T>& p) {
  std::vector<double> y;
  for (std::int64_t patch = p.first; patch < p.first + p.count; ++patch) {
    const std::int64_t top = patch / p.grid_columns * p.patch_size;
    const std::int64_t left = patch % p.grid_columns * p.patch_size;
    for (std::int64_t channel = 0; channel < channels; ++channel)
      for (std::int64_t i = top; i < top + p.patch_size; ++i)
        for (std::int64_t j = left; j < left + p.patch_size; ++j)
          y.push_back(static_cast<double>(tensor[(channel * height + i) * width + j]));
  }
  return y;
}

template std::vector<double> from_pixels_reference(const std::uint8_t*, std::int64_t,
                                                   const PatchRows<float>&);
template std::vector<double> from_pixels_reference(const std::uint8_t*, std::int64_t,
                                                   const PatchRows<BFloat16>&);
template std::vector<double> from_tensor_reference(const float*, std::int64_t, std::int64_t,
                                                   std::int64_t, const PatchRows<float>&);
template std::vector<double> from_tensor_reference(const float*, std::int64_t, std::int64_t,
                                                   std::int64_t, const PatchRows<BFloat16>&);

}  // namespace hydrascope::kernels::patchify
