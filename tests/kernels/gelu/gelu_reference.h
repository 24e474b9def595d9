// The naive twin of gelu-inl.h: std::erfc in float64.
#pragma once

#include <cmath>

namespace hydrascope::kernels::gelu {

/// erfc of -x, not 1 + erf of x, keeps the digits of the negative tail.
inline double gelu_reference(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

}  // namespace hydrascope::kernels::gelu
