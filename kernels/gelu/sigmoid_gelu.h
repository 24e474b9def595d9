// The two forms of GELU with a sigmoid in place of the error function, between an MLP's products.
//
// Equation: y = x sigmoid(z), z = slope x (1 + cubic x^2). QuickGELU has slope 1.702 and cubic 0.
//   GELU's form with tanh, x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), is the same with slope
//   2 sqrt(2/pi) and cubic 0.044715, because 1 + tanh(z/2) = 2 sigmoid(z) (Hendrycks and Gimpel
//   2016, arXiv 1606.08415, section 2).
// Tensors: x and y `count` numbers, float32 or bfloat16, any alignment. y may be x.
// Work: 2 count sizeof(T) bytes, about 25 operations per element (exp and a division).
// Numerics: float32, one rounding when stored; the relative error is below 1e-6 where the result is
//   a normal number. The result is zero for z below -88 and NaN for x = -infinity, as in torch. NaN
//   stays. Every element by itself. Tolerance: 1e-6 (float32) or 2^-8 (bfloat16) of the largest |y|.
// Preconditions: count >= 0.
// Test: tests/kernels/gelu/sigmoid_gelu_test.cpp, which holds the twin.
#pragma once

#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::gelu {

struct SigmoidForm {
  float slope;
  float cubic;
};
inline constexpr SigmoidForm kQuick{1.702F, 0.0F};
inline constexpr SigmoidForm kTanh{1.5957691216F, 0.044715F};

template <class T>
struct SigmoidGeluParams {
  const T* x;
  std::int64_t count;
  SigmoidForm form;
  T* y;  ///< may be x
};

void sigmoid_gelu(const SigmoidGeluParams<float>& params);
void sigmoid_gelu(const SigmoidGeluParams<BFloat16>& params);

}  // namespace hydrascope::kernels::gelu
