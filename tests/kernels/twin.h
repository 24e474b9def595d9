// Common to the kernels' twins: stored values in float64, and sums with the size of their terms.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hydrascope::kernels::twin {

using Row = std::vector<double>;

/// T: float or a storage type.
template <class T>
double widened(T value) {
  return static_cast<double>(static_cast<float>(value));
}
template <class T>
Row widened(const T* values, std::int64_t count) {
  Row row;
  row.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) row.push_back(widened(values[i]));
  return row;
}

/// Unrounded values, and the same sums with all terms positive: what the errors of float32 scale
/// with.
struct Sums {
  Row values;
  Row magnitudes;

  Sums() = default;
  explicit Sums(std::size_t zeros) : values(zeros), magnitudes(zeros) {}
  /// `size`: of the terms, whatever its sign.
  void add(std::size_t i, double value, double size) {
    values[i] += value;
    magnitudes[i] += std::abs(size);
  }
  void append(double value, double size) {
    values.push_back(value);
    magnitudes.push_back(std::abs(size));
  }
  /// Those of another side by side with these, times a factor.
  void append(const Sums& others, double factor) {
    for (std::size_t i = 0; i < others.values.size(); ++i)
      append(factor * others.values[i], factor * others.magnitudes[i]);
  }
};

}  // namespace hydrascope::kernels::twin
