// A linear layer packed for the micro-kernels, in floating point or in 8 bits, and its application.
#pragma once

#include "kernels/linear/linear.h"
#include "kernels/quantised_linear/quantised_linear.h"
#include "kernels/vector/aligned_buffer.h"

#include <cstdint>

namespace hydrascope::model::inference {

/// One of the two weights is there.
struct PackedLinear {
  kernels::linear::PackedWeight weight;
  kernels::quantised_linear::QuantisedWeight quantised;
  kernels::AlignedBuffer<float> bias;        ///< (out)
  kernels::AlignedBuffer<float> multiplier;  ///< of the quantised input's channels (in), or empty

  [[nodiscard]] bool is_quantised() const { return quantised.out() > 0; }
  [[nodiscard]] std::int64_t in() const { return is_quantised() ? quantised.in() : weight.in(); }
  [[nodiscard]] std::int64_t out() const { return is_quantised() ? quantised.out() : weight.out(); }
};

/// Rows that linear layers read; for quantised layers also as integers.
template <class T>
struct LinearInput {
  const T* rows;
  kernels::quantised_linear::Rows quantised;
  std::int64_t stride = 0;  ///< elements from row to row; 0: rows lie without gaps
};

/// Rows (count, in), `stride` apart, as `layer` reads them; `integers` is room for them in 8 bits.
template <class T>
LinearInput<T> linear_input(const PackedLinear& layer, const T* rows, std::int64_t stride,
                            std::int64_t count, const kernels::quantised_linear::Rows& integers) {
  if (layer.is_quantised())
    kernels::quantised_linear::quantise(kernels::quantised_linear::QuantiseParams<T>{
        rows, stride, count, layer.in(),
        layer.multiplier.empty() ? nullptr : layer.multiplier.data(), integers});
  return {rows, integers, stride};
}

/// The first `count` rows -> those outputs of y, rows `y_stride` apart.
template <class T>
void apply(const PackedLinear& layer, const LinearInput<T>& x, std::int64_t count, T* y,
           std::int64_t y_stride, kernels::linear::Epilogue epilogue,
           const kernels::linear::Outputs& outputs = {}) {
  if (count <= 0) return;
  if (layer.is_quantised())
    kernels::quantised_linear::linear(kernels::quantised_linear::LinearParams<T>{
        x.quantised, count, &layer.quantised, layer.bias.data(), y, y_stride, epilogue, outputs});
  else
    kernels::linear::linear(kernels::linear::LinearParams<T>{
        x.rows, x.stride > 0 ? x.stride : layer.in(), count, &layer.weight, layer.bias.data(), y,
        y_stride, epilogue, outputs});
}

}  // namespace hydrascope::model::inference
