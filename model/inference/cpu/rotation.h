// Rotary positions in the CPU's plan: features of a head are turned in pairs by the angles of their
// patch, x' = x cos a - y sin a, y' = y cos a + x sin a, in float32 whatever the storage.
#pragma once

#include "kernels/vector/aligned_buffer.h"

#include <cstdint>

namespace hydrascope::model::inference {

/// A layer's angles at an image's size; empty if it turns nothing.
struct RotationTable {
  /// (patches and overview, heads or 1, d / 2), each in row-major order.
  kernels::AlignedBuffer<float> cosine;
  kernels::AlignedBuffer<float> sine;
  std::int64_t table_heads = 0;  ///< H, or 1 if heads agree
  std::int64_t half = 0;         ///< d / 2
  bool neighbours = true;        ///< pair n is features 2n and 2n + 1, else n and n + d / 2

  [[nodiscard]] bool empty() const { return half == 0; }

  /// Turns `count` rows of `num_heads` heads, `stride` elements apart: patch, patch + 1, ...
  template <class T>
  void turn(T* rows, std::int64_t stride, std::int64_t num_heads, std::int64_t patch,
            std::int64_t count) const {
    const std::int64_t step = neighbours ? 2 : 1;
    const std::int64_t apart = neighbours ? 1 : half;
    for (; count > 0; --count, ++patch, rows += stride) {
      for (std::int64_t head = 0; head < num_heads; ++head) {
        const std::int64_t of_head = patch * table_heads + (table_heads == 1 ? 0 : head);
        const float* const c = cosine.data() + of_head * half;
        const float* const s = sine.data() + of_head * half;
        T* const x = rows + head * 2 * half;
        for (std::int64_t n = 0; n < half; ++n) {
          const auto a = static_cast<float>(x[n * step]);
          const auto b = static_cast<float>(x[n * step + apart]);
          x[n * step] = T(a * c[n] - b * s[n]);
          x[n * step + apart] = T(b * c[n] + a * s[n]);
        }
      }
    }
  }
};

}  // namespace hydrascope::model::inference
