// The naive twin of linear.h: one dot product per output, in float64.
#pragma once

#include "kernels/linear/linear.h"
#include "tests/kernels/gelu/gelu_reference.h"
#include "tests/kernels/twin.h"

#include <vector>

namespace hydrascope::kernels::linear {

/// The epilogue's result of the product's sum at element `y`.
template <class T>
double finished(double sum, Epilogue epilogue, T y) {
  switch (epilogue) {
    case Epilogue::store: return sum;
    case Epilogue::gelu: return gelu::gelu_reference(sum);
    case Epilogue::add: return sum + twin::widened(y);
  }
  return sum;
}

/// What `linear` leaves in y, unrounded: (rows, out). The weight is given as it was packed: (out,
/// in) contiguous, already rounded to the storage type.
template <class T>
std::vector<double> linear_reference(const LinearParams<T>& p, const std::vector<float>& weight) {
  const std::int64_t out = p.weight->out();
  const std::int64_t in = p.weight->in();
  std::vector<double> y;
  for (std::int64_t row = 0; row < p.rows; ++row) {
    for (std::int64_t o = 0; o < out; ++o) {
      double sum = p.bias == nullptr ? 0.0 : static_cast<double>(p.bias[o]);
      for (std::int64_t k = 0; k < in; ++k)
        sum += twin::widened(p.x[row * p.x_stride + k]) *
               static_cast<double>(weight[static_cast<std::size_t>(o * in + k)]);
      y.push_back(finished(sum, p.epilogue, p.y[row * p.y_stride + o]));
    }
  }
  return y;
}

}  // namespace hydrascope::kernels::linear
