// A product by plain loops in float64, rounded once: the twin of cuBLASLt's.
#pragma once

#include "kernels/linear/products.h"
#include "kernels/vector/scalar_types.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

namespace hydrascope::kernels::test {

template <class T>
void host_product(const linear::cuda::ProductShape& s, const void* x, const void* weight,
                  const void* bias, const void* c, void* y) {
  const auto floats = [](const void* from, std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
      values[static_cast<std::size_t>(i)] = static_cast<float>(static_cast<const T*>(from)[i]);
    return values;
  };
  const std::vector<float> w = floats(weight, s.out * s.in);
  const std::vector<float> b = floats(bias, s.out);
  for (std::int64_t image = 0; image < s.batch; ++image) {
    for (std::int64_t row = 0; row < s.rows; ++row) {
      const std::vector<float> input =
          floats(static_cast<const T*>(x) + image * s.x_batch_stride + row * s.x_stride, s.in);
      T* result = static_cast<T*>(y) + image * s.y_batch_stride + row * s.y_stride;
      const T* added = static_cast<const T*>(c);
      if (added != nullptr) added += image * s.c_batch_stride + row * s.c_stride;
      for (std::int64_t out = 0; out < s.out; ++out) {
        const float* from = w.data() + out * s.in;
        double sum = 0;
        for (std::int64_t i = 0; i < s.in; ++i)
          sum += static_cast<double>(from[i]) * input[static_cast<std::size_t>(i)];
        sum += b[static_cast<std::size_t>(out)];
        if (s.gelu) {
          const double inner = std::sqrt(2 / std::numbers::pi) * (sum + 0.044715 * sum * sum * sum);
          sum = 0.5 * sum * (1 + std::tanh(inner));
        }
        if (s.add) sum += static_cast<double>(static_cast<float>(added[out]));
        result[out] = T(static_cast<float>(sum));
      }
    }
  }
}

}  // namespace hydrascope::kernels::test
