// Common to the tests of kernels on the CPU and on the GPU: inputs and comparison.
#pragma once

#include "kernels/vector/scalar_types.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <type_traits>

namespace hydrascope::kernels::test {

/// Storage types, for typed tests.
using CpuTypes = ::testing::Types<float, BFloat16>;
using GpuTypes = ::testing::Types<float, BFloat16, Float16>;

enum class Fill { normal, ones, one_hot, ramp, large, zeros };
inline constexpr Fill kAllFills[] = {Fill::normal, Fill::ones,  Fill::one_hot,
                                     Fill::ramp,   Fill::large, Fill::zeros};

template <class Range>
void fill(Range&& values, Fill how, unsigned seed) {
  using T = std::remove_reference_t<decltype(*std::begin(values))>;
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::size_t i = 0;
  for (T& value : values) {
    float x = 0;
    switch (how) {
      case Fill::normal: x = normal(random); break;
      case Fill::ones: x = 1; break;
      case Fill::one_hot: x = i == 3 ? 1.0F : 0.0F; break;
      case Fill::ramp: x = 0.01F * static_cast<float>(i % 257) - 1.0F; break;
      case Fill::large: x = 100 * normal(random); break;
      case Fill::zeros: break;
    }
    value = T(x);
    ++i;
  }
}

/// Fails, with coordinates and values, where |found - expected| exceeds
/// relative * (largest |expected|) + absolute, or is NaN. `columns` only shapes the message.
template <class T>
void expect_close(const T* found, std::span<const double> expected, double relative,
                  double absolute, std::size_t columns, const std::string& what) {
  double scale = 0;
  for (const double e : expected) scale = std::max(scale, std::abs(e));
  const double tolerance = relative * scale + absolute;
  std::size_t wrong = 0;
  std::size_t worst = 0;
  double worst_error = -1;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(static_cast<double>(static_cast<float>(found[i])) - expected[i]);
    if (!(error <= tolerance)) ++wrong;
    if (!(error <= worst_error)) {
      worst_error = error;
      worst = i;
    }
  }
  EXPECT_EQ(wrong, 0U) << what << ": " << wrong << " of " << expected.size() << " outside "
                       << tolerance << "; worst at row " << worst / columns << ", column "
                       << worst % columns << ": found " << static_cast<float>(found[worst])
                       << ", expected " << expected[worst];
}

/// Relative tolerance of one rounding to T (for float32 of a few).
template <class T>
constexpr double rounding() {
  return 1e-6;
}
template <>
constexpr double rounding<BFloat16>() {
  return 1.0 / 256;
}
template <>
constexpr double rounding<Float16>() {
  return 1.0 / 2048;
}

}  // namespace hydrascope::kernels::test
