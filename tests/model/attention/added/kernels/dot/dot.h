// The kernel of linear attention without a feature map: S = k^T v of one head, and rows q S.
#pragma once

#include <cstdint>

namespace hydrascope::kernels::dot {

/// sums (d, d) += the sum over `rows` rows of k_t^T v_t, rows `stride` elements apart.
template <class T>
void add_outer_products(const T* k, const T* v, std::int64_t stride, std::int64_t rows,
                        std::int64_t dim, double* sums) {
  for (; rows > 0; --rows, k += stride, v += stride)
    for (std::int64_t i = 0; i < dim; ++i)
      for (std::int64_t j = 0; j < dim; ++j)
        sums[i * dim + j] += static_cast<double>(static_cast<float>(k[i])) *
                             static_cast<double>(static_cast<float>(v[j]));
}

/// y (d) = q (d) sums (d, d).
template <class T>
void row_times(const T* q, const double* sums, std::int64_t dim, T* y) {
  for (std::int64_t j = 0; j < dim; ++j) {
    double sum = 0;
    for (std::int64_t i = 0; i < dim; ++i)
      sum += static_cast<double>(static_cast<float>(q[i])) * sums[i * dim + j];
    y[j] = T(static_cast<float>(sum));
  }
}

}  // namespace hydrascope::kernels::dot
