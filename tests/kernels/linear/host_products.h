// Products by plain loops in float64, rounded once: the twin of cuBLASLt's, and what plans run on
// the host.
#pragma once

#include "kernels/error.h"
#include "kernels/linear/products.h"
#include "kernels/vector/scalar_types.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

namespace hydrascope::kernels::test {

class HostProducts final : public linear::cuda::Products {
 public:
  using Shape = linear::cuda::ProductShape;
  using Type = linear::cuda::ProductType;

  int plan(const Shape& shape) override {
    shapes_.push_back(shape);
    return static_cast<int>(shapes_.size()) - 1;
  }

  void run(int product, const void* x, const void* weight, const void* bias, const void* c,
           void* y) override {
    const Shape& shape = shapes_.at(static_cast<std::size_t>(product));
    if (!are_aligned(shape, x, weight, bias, c, y))
      throw Error(ErrorCode::internal, "an operand is less aligned than its plan says",
                  "a product");
    switch (shape.type) {
      case Type::bfloat16: multiply<BFloat16>(shape, x, weight, bias, c, y); break;
      case Type::float16: multiply<Float16>(shape, x, weight, bias, c, y); break;
      default: multiply<float>(shape, x, weight, bias, c, y);
    }
  }

 private:
  template <class T>
  static void multiply(const Shape& s, const void* x, const void* weight, const void* bias,
                       const void* c, void* y) {
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
            const double inner =
                std::sqrt(2 / std::numbers::pi) * (sum + 0.044715 * sum * sum * sum);
            sum = 0.5 * sum * (1 + std::tanh(inner));
          }
          if (s.add) sum += static_cast<double>(static_cast<float>(added[out]));
          result[out] = T(static_cast<float>(sum));
        }
      }
    }
  }

  std::vector<Shape> shapes_;
};

}  // namespace hydrascope::kernels::test
