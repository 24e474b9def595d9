// The naive twins of quantised_linear.h, in float64.
#pragma once

#include "kernels/quantised_linear/quantised_linear.h"
#include "tests/kernels/linear/linear_reference.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace hydrascope::kernels::quantised_linear {

/// The value of a weight (out, in) after packing: t_o w_ok.
inline std::vector<float> quantised_weight_reference(const std::vector<float>& weight,
                                                     std::int64_t out, std::int64_t in) {
  std::vector<float> result;
  for (std::int64_t o = 0; o < out; ++o) {
    const auto row = weight.begin() + o * in;
    float largest = 0;
    std::for_each(row, row + in, [&](float w) { largest = std::max(largest, std::abs(w)); });
    const float step = largest / 127;
    std::transform(row, row + in, std::back_inserter(result),
                   [&](float w) { return step > 0 ? step * std::nearbyint(w / step) : 0.0F; });
  }
  return result;
}

/// What `linear` leaves in y from quantised rows, unrounded: (rows, out). `weight`: as
/// quantised_weight_reference gives it.
template <class T>
std::vector<double> linear_reference(const LinearParams<T>& p, const std::vector<float>& weight) {
  const std::int64_t out = p.weight->out();
  const std::int64_t in = p.weight->in();
  std::vector<double> y;
  for (std::int64_t row = 0; row < p.rows; ++row) {
    for (std::int64_t o = 0; o < out; ++o) {
      double sum = p.bias == nullptr ? 0.0 : static_cast<double>(p.bias[o]);
      for (std::int64_t k = 0; k < in; ++k) {
        const double x = static_cast<double>(p.x.scale[row]) * p.x.values[row * row_bytes(in) + k] +
                         static_cast<double>(p.x.least[row]);
        sum += x * static_cast<double>(weight[static_cast<std::size_t>(o * in + k)]);
      }
      y.push_back(linear::finished(sum, p.epilogue, p.y[row * p.y_stride + o]));
    }
  }
  return y;
}

}  // namespace hydrascope::kernels::quantised_linear
