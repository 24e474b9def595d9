// Products by plain loops, for plans that run on the host.
#pragma once

#include "kernels/linear/products.h"
#include "kernels/vector/scalar_types.h"

#include <cmath>
#include <numbers>
#include <vector>

namespace hydrascope::model::inference {

class HostProducts final : public kernels::linear::cuda::Products {
 public:
  using Shape = kernels::linear::cuda::ProductShape;
  using Type = kernels::linear::cuda::ProductType;

  int plan(const Shape& shape) override {
    shapes_.push_back(shape);
    return static_cast<int>(shapes_.size()) - 1;
  }

  void run(int product, const void* x, const void* weight, const void* bias, const void* c,
           void* y) override {
    const Shape& shape = shapes_.at(static_cast<std::size_t>(product));
    switch (shape.type) {
      case Type::bfloat16: multiply<kernels::BFloat16>(shape, x, weight, bias, c, y); break;
      case Type::float16: multiply<kernels::Float16>(shape, x, weight, bias, c, y); break;
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
          float sum = 0;
          for (std::int64_t i = 0; i < s.in; ++i)
            sum += from[i] * input[static_cast<std::size_t>(i)];
          sum += b[static_cast<std::size_t>(out)];
          if (s.gelu) {
            const float inner =
                std::sqrt(2 / std::numbers::pi_v<float>) * (sum + 0.044715F * sum * sum * sum);
            sum = 0.5F * sum * (1 + std::tanh(inner));
          }
          if (s.add) sum += static_cast<float>(added[out]);
          result[out] = T(sum);
        }
      }
    }
  }

  std::vector<Shape> shapes_;
};

}  // namespace hydrascope::model::inference
