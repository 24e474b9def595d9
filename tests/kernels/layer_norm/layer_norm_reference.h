// The naive twin of layer_norm.h: the equation, in float64.
#pragma once

#include "kernels/layer_norm/layer_norm.h"
#include "tests/kernels/twin.h"

#include <cmath>
#include <vector>

namespace hydrascope::kernels::layer_norm {

/// What `layer_norm` leaves in y, unrounded: (rows, dim).
template <class T>
std::vector<double> layer_norm_reference(const LayerNormParams<T>& p) {
  std::vector<double> y;
  const auto dim = static_cast<double>(p.dim);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const auto x = [&](std::int64_t i) { return twin::widened(p.x[row * p.x_stride + i]); };
    double mean = 0;
    for (std::int64_t i = 0; i < p.dim && !p.rms; ++i) mean += x(i) / dim;
    double variance = 0;
    for (std::int64_t i = 0; i < p.dim; ++i) variance += (x(i) - mean) * (x(i) - mean) / dim;
    const double deviation = std::sqrt(variance + static_cast<double>(p.eps));
    for (std::int64_t i = 0; i < p.dim; ++i) {
      const double weight = p.weight == nullptr ? 1.0 : static_cast<double>(p.weight[i]);
      const double bias = p.bias == nullptr ? 0.0 : static_cast<double>(p.bias[i]);
      y.push_back((x(i) - mean) / deviation * weight + bias);
    }
  }
  return y;
}

}  // namespace hydrascope::kernels::layer_norm
