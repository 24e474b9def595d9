// Derivatives by central differences, to which gradients are compared.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace hydrascope::testing {

/// (loss_of() at value + step - loss_of() at value - step) / (2 step) for element `index` of the flattened
/// `value`, which must be contiguous and gets its value back. Gradients must be off.
template <class Loss>
double central_difference(const at::Tensor& value, std::int64_t index, double step,
                          const Loss& loss_of) {
  at::Tensor element = value.view({-1})[index];
  const double before = element.item<double>();
  const auto loss_at = [&](double changed) {
    element.fill_(changed);
    return loss_of().template item<double>();
  };
  const double above = loss_at(before + step);
  const double below = loss_at(before - step);
  element.fill_(before);
  return (above - below) / (2 * step);
}

}  // namespace hydrascope::testing
