// The naive twins of quantised_linear.h, in float64.
#pragma once

#include "kernels/quantised_linear/quantised_linear.h"

#include <vector>

namespace hydrascope::kernels::quantised_linear {

/// What a weight (out, in) is after packing: t_o w_ok.
std::vector<float> quantised_weight_reference(const std::vector<float>& weight, std::int64_t out,
                                              std::int64_t in);

/// What `linear` leaves in y from quantised rows, unrounded: (rows, out). `weight`: as
/// quantised_weight_reference gives it.
template <class T>
std::vector<double> linear_reference(const LinearParams<T>& params,
                                     const std::vector<float>& weight);

extern template std::vector<double> linear_reference(const LinearParams<float>&,
                                                     const std::vector<float>&);
extern template std::vector<double> linear_reference(const LinearParams<BFloat16>&,
                                                     const std::vector<float>&);

}  // namespace hydrascope::kernels::quantised_linear
