// Rows of values with NaN between and around them.
#pragma once

#include "tests/kernels/kernel_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
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
  StridedRows(std::int64_t rows_, std::int64_t dim_, std::int64_t gap, const std::vector<T>& inside)
      : StridedRows(rows_, dim_, gap) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < dim; ++i)
        at(r, i) = inside[static_cast<std::size_t>(r * dim + i)];
  }
  StridedRows(std::int64_t rows_, std::int64_t dim_, std::int64_t gap, Fill how, unsigned seed)
      : StridedRows(rows_, dim_, gap, [&] {
          std::vector<T> inside(static_cast<std::size_t>(rows_ * dim_));
          fill(inside, how, seed);
          return inside;
        }()) {}

  T* data() { return values.data(); }
  const T* data() const { return values.data(); }
  T& at(std::int64_t r, std::int64_t i) { return values[static_cast<std::size_t>(r * stride + i)]; }
  /// Row `r`, for kernels.
  T* row(std::int64_t r) { return data() + r * stride; }
  [[nodiscard]] double of(std::int64_t r, std::int64_t i) const {
    return static_cast<double>(
        static_cast<float>(values[static_cast<std::size_t>(r * stride + i)]));
  }
  [[nodiscard]] bool is_nan(std::int64_t r, std::int64_t i) const { return std::isnan(of(r, i)); }
  /// The first `count` rows, one after the other.
  [[nodiscard]] std::vector<T> inside(std::int64_t count) const {
    std::vector<T> all;
    for (std::int64_t r = 0; r < count; ++r)
      all.insert(all.end(), data() + r * stride, data() + r * stride + dim);
    return all;
  }
  [[nodiscard]] std::vector<T> inside() const { return inside(rows); }
  /// Whether what lies between and around the rows is still NaN.
  [[nodiscard]] bool intact() const {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = dim; i < stride; ++i)
        if (!std::isnan(of(r, i))) return false;
    return values.intact();
  }
};

/// expect_close of the first rows, as many as are expected, and nothing written beside any.
template <class T>
void expect_rows(const StridedRows<T>& found, std::span<const double> expected, double relative,
                 double absolute, const std::string& what) {
  const auto dim = static_cast<std::size_t>(found.dim);
  const std::vector<T> values = found.inside(static_cast<std::int64_t>(expected.size() / dim));
  expect_close(values.data(), expected, relative, absolute, dim, what);
  EXPECT_TRUE(found.intact()) << what;
}

}  // namespace hydrascope::kernels::test
