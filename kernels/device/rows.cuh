// Common parts of kernels over rows of tokens: a row's address, whether it can be read in packs,
// and its token's weight.
#pragma once

#include "kernels/device/rows.h"
#include "kernels/device/vector_io.cuh"
#include "kernels/token_weights.h"

#include <cstdint>
#include <type_traits>

namespace hydrascope::kernels::device {

template <class T>
__device__ __forceinline__ T* row_of(const Rows<T>& rows, std::int64_t image, std::int64_t token) {
  return rows.data + image * rows.image_stride + token * rows.stride;
}

/// Whether all rows can be read, or written, in packs of `count` values.
template <class T>
bool in_packs(const Rows<T>& rows, int count = kPackSize<std::remove_const_t<T>>) {
  return can_pack(rows.data, rows.stride, count) && rows.image_stride % count == 0;
}

/// kernels::TokenWeights as a kernel's argument.
struct TokenWeights {
  std::int64_t num_prefix;
  float prefix;
  float patch;

  explicit TokenWeights(const kernels::TokenWeights& weights)
      : num_prefix(weights.num_prefix),
        prefix(static_cast<float>(weights.prefix)),
        patch(static_cast<float>(weights.patch)) {}

  __device__ float of(std::int64_t token) const { return token < num_prefix ? prefix : patch; }
};

}  // namespace hydrascope::kernels::device
