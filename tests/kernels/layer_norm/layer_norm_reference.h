// The naive twin of layer_norm.h: the equation, in float64.
#pragma once

#include "kernels/layer_norm/layer_norm.h"

#include <vector>

namespace hydrascope::kernels::layer_norm {

/// What `layer_norm` leaves in y, unrounded: (rows, dim).
template <class T>
std::vector<double> layer_norm_reference(const LayerNormParams<T>& params);

extern template std::vector<double> layer_norm_reference(const LayerNormParams<float>&);
extern template std::vector<double> layer_norm_reference(const LayerNormParams<BFloat16>&);
extern template std::vector<double> layer_norm_reference(const LayerNormParams<Float16>&);

}  // namespace hydrascope::kernels::layer_norm
