#include "tests/kernels/gelu/gelu_reference.h"

#include <cmath>

namespace hydrascope::kernels::gelu {

double gelu_reference(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

}  // namespace hydrascope::kernels::gelu
