// The naive twin of local_convolution.h and local_convolution_cuda.h, in float64.
#pragma once

#include "kernels/local_convolution/local_convolution.h"
#include "tests/kernels/twin.h"

#include <vector>

namespace hydrascope::kernels::local_convolution {

/// (count, dim): y + the sum.
template <class T>
std::vector<double> add_reference(const AddParams<T>& p) {
  const std::int64_t reach = p.shape.size / 2;
  std::vector<double> sums;
  for (std::int64_t i = 0; i < p.count; ++i) {
    const std::int64_t row = (p.first + i) / p.shape.columns;
    const std::int64_t column = (p.first + i) % p.shape.columns;
    for (std::int64_t f = 0; f < p.shape.dim; ++f) {
      double sum = twin::widened(p.y[i * p.y_stride + f]);
      for (std::int64_t dy = -reach; dy <= reach; ++dy)
        for (std::int64_t dx = -reach; dx <= reach; ++dx) {
          const std::int64_t r = row + dy;
          const std::int64_t c = column + dx;
          if (r < 0 || r >= p.shape.rows || c < 0 || c >= p.shape.columns) continue;
          const std::int64_t tap = (dy + reach) * p.shape.size + dx + reach;
          sum += static_cast<double>(p.weight[tap * p.shape.dim + f]) *
                 twin::widened(p.v[(r * p.shape.columns + c) * p.v_stride + f]);
        }
      sums.push_back(sum);
    }
  }
  return sums;
}

}  // namespace hydrascope::kernels::local_convolution
