// Rows of values with NaN between and around them.
#pragma once

#include "tests/kernels/kernel_case.h"

#include <cstdint>
#include <vector>

namespace hydrascope::kernels::test {

template <class T>
struct StridedRows {
  std::int64_t rows;
  std::int64_t dim;
  std::int64_t stride;
  Guarded<T> values;

  StridedRows(std::int64_t rows_, std::int64_t dim_, std::int64_t gap)
      : rows(rows_),
        dim(dim_),
        stride(dim_ + gap),
        values(static_cast<std::size_t>(rows_ * (dim_ + gap))) {}
  StridedRows(std::int64_t rows_, std::int64_t dim_, std::int64_t gap, Fill how, unsigned seed)
      : StridedRows(rows_, dim_, gap) {
    std::vector<T> inside(static_cast<std::size_t>(rows * dim));
    fill(inside, how, seed);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < dim; ++i)
        at(r, i) = inside[static_cast<std::size_t>(r * dim + i)];
  }

  T* data() { return values.data(); }
  const T* data() const { return values.data(); }
  T& at(std::int64_t r, std::int64_t i) { return values[static_cast<std::size_t>(r * stride + i)]; }
  [[nodiscard]] double of(std::int64_t r, std::int64_t i) const {
    return static_cast<double>(
        static_cast<float>(values[static_cast<std::size_t>(r * stride + i)]));
  }
  /// Whether what lies between and around the rows is still NaN.
  [[nodiscard]] bool intact() const {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = dim; i < stride; ++i)
        if (!std::isnan(of(r, i))) return false;
    return values.intact();
  }
};

}  // namespace hydrascope::kernels::test
