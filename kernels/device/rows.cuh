// What kernels over rows of tokens share: where a row lies, whether it can be read in packs, and
// what its token weighs.
#pragma once

#include "kernels/device/rows.h"
#include "kernels/device/vector_io.cuh"

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

/// The weights of tokens in a sum over them: prefix tokens (class token, registers) and patches.
struct TokenWeights {
  std::int64_t num_prefix;
  float prefix;
  float patch;

  __device__ float of(std::int64_t token) const { return token < num_prefix ? prefix : patch; }
};

}  // namespace hydrascope::kernels::device
