#pragma once

#include "kernels/device/stream.h"
#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::token_rows::cuda {

/// The first tokens of every image, the same for all: class token, distillation token, registers.
template <class T>
struct PrefixParams {
  const float* prefix;  ///< (num_prefix, dim), positions added
  std::int64_t num_prefix;
  std::int64_t dim;
  std::int64_t images;
  T* x;  ///< token t of image b at x + b * image_stride + t * dim: rows 0 .. num_prefix - 1 are set
  std::int64_t image_stride;
};
void write_prefix(const PrefixParams<float>& params, device::Stream stream);
void write_prefix(const PrefixParams<BFloat16>& params, device::Stream stream);
void write_prefix(const PrefixParams<Float16>& params, device::Stream stream);

/// y_b = mean of tokens first .. first + count of image b, in float32: the class token (count 1),
/// or the average of all patches.
template <class T>
struct MeanParams {
  const T* x;  ///< token t of image b at x + b * image_stride + t * dim
  std::int64_t image_stride;
  std::int64_t images;
  std::int64_t first;
  std::int64_t count;  ///< at least 1
  std::int64_t dim;
  float* y;  ///< (images, dim)
};
void mean_of_tokens(const MeanParams<float>& params, device::Stream stream);
void mean_of_tokens(const MeanParams<BFloat16>& params, device::Stream stream);
void mean_of_tokens(const MeanParams<Float16>& params, device::Stream stream);

}  // namespace hydrascope::kernels::token_rows::cuda
