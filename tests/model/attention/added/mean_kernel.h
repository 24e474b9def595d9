// The kernel of a mechanism that the tests add: sums of rows.
#pragma once

#include <cstdint>

namespace hydrascope::testing {

/// sum (dim) += the sum of `rows` rows, `stride` elements apart.
template <class T>
void add_rows(const T* values, std::int64_t stride, std::int64_t rows, std::int64_t dim,
              double* sum) {
  for (std::int64_t row = 0; row < rows; ++row, values += stride)
    for (std::int64_t i = 0; i < dim; ++i)
      sum[i] += static_cast<double>(static_cast<float>(values[i]));
}

}  // namespace hydrascope::testing
