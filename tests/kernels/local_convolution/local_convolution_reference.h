// The naive twin of local_convolution.h and local_convolution_cuda.h, in float64.
#pragma once

#include "kernels/local_convolution/local_convolution.h"

#include <vector>

namespace hydrascope::kernels::local_convolution {

/// (count, dim): y + the sum.
template <class T>
std::vector<double> add_reference(const AddParams<T>& params);

}  // namespace hydrascope::kernels::local_convolution
