// The naive twin of linear.h: one dot product per output, in float64.
#pragma once

#include "kernels/linear/linear.h"

#include <vector>

namespace hydrascope::kernels::linear {

/// What `linear` leaves in y, unrounded: (rows, out). The weight is given as it was packed: (out,
/// in) contiguous, already rounded to the storage type.
template <class T>
std::vector<double> linear_reference(const LinearParams<T>& params,
                                     const std::vector<float>& weight);

extern template std::vector<double> linear_reference(const LinearParams<float>&,
                                                     const std::vector<float>&);
extern template std::vector<double> linear_reference(const LinearParams<BFloat16>&,
                                                     const std::vector<float>&);

}  // namespace hydrascope::kernels::linear
