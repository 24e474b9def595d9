// The naive twin of gelu-inl.h and gelu_cuda.h: std::erfc in float64.
#pragma once

namespace hydrascope::kernels::gelu {

/// erfc of -x, not 1 + erf of x, keeps the digits of the negative tail.
double gelu_reference(double x);

}  // namespace hydrascope::kernels::gelu
