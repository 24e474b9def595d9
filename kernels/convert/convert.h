// Contiguous conversions between storage types, rounded to nearest, ties to even; NaN stays NaN,
// overflow becomes infinity, subnormals are exact.
#pragma once

#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::convert {

void to_bfloat16(const float* from, BFloat16* to, std::int64_t count);
void to_float(const BFloat16* from, float* to, std::int64_t count);
/// IEEE half precision as its bits.
void to_float16(const float* from, std::uint16_t* to, std::int64_t count);
void to_float(const std::uint16_t* from, float* to, std::int64_t count);

}  // namespace hydrascope::kernels::convert
