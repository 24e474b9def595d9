// A batch of rows of tokens, as the attentions' CUDA functions take them.
#pragma once

#include <cstdint>

namespace hydrascope::kernels::device {

/// Rows of contiguous values: token t of image b begins at data + b * image_stride + t * stride.
template <class T>
struct Rows {
  T* data;
  std::int64_t stride;        ///< elements between tokens
  std::int64_t image_stride;  ///< elements between images
};

}  // namespace hydrascope::kernels::device
