// A layer of weights with its rows, NaN between and around them.
#pragma once

#include "kernels/linear/linear.h"
#include "tests/kernels/strided_rows.h"

#include <cmath>
#include <cstdint>
#include <vector>

namespace hydrascope::kernels::test {

/// Weights of order 1 / sqrt(in), rounded to T.
template <class T>
std::vector<float> random_weight(std::int64_t out, std::int64_t in) {
  std::vector<float> values(static_cast<std::size_t>(out * in));
  fill(values, Fill::normal, 1);
  for (float& w : values) w = static_cast<float>(T(w / std::sqrt(static_cast<float>(in))));
  return values;
}

template <class T>
struct LinearLayer {
  std::int64_t rows;
  std::vector<float> weight;
  linear::PackedWeight packed;
  Guarded<float> bias;
  StridedRows<T> x;
  StridedRows<T> y;

  LinearLayer(std::int64_t num_rows, std::int64_t in, std::int64_t out, Fill how = Fill::normal,
              linear::Form form = linear::Form::automatic)
      : rows(num_rows),
        weight(random_weight<T>(out, in)),
        packed(sizeof(T) == 2 ? Storage::bfloat16 : Storage::float32, weight.data(), out, in, in,
               form),
        bias(static_cast<std::size_t>(out)),
        x(rows, in, 5, how, 3),
        y(rows, out, 3) {
    fill(bias, Fill::normal, 2);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t o = 0; o < out; ++o) y.at(r, o) = T(0.25F * static_cast<float>(o % 7));
  }
  [[nodiscard]] linear::LinearParams<T> params(linear::Epilogue epilogue) {
    return {x.data(), x.stride, rows, &packed, bias.data(), y.data(), y.stride, epilogue};
  }
  [[nodiscard]] std::string name() const {
    return std::to_string(rows) + "x" + std::to_string(x.dim) + "x" + std::to_string(y.dim);
  }
};

}  // namespace hydrascope::kernels::test
