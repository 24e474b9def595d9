// Contiguous conversions between storage types: checkpoints and inputs to what a plan stores, and
// what it stores to what a record shows.
//
// Equation: the nearest value of the narrower type, ties to even (IEEE 754, roundTiesToEven). NaN
//   stays NaN (quiet when narrowed), overflow becomes infinity, subnormals are exact, -0 keeps its
//   sign. Widening is exact.
// Tensors: `count` elements, any alignment; from and to may not overlap.
// Memory: 6 bytes per element, read and written, hardly any arithmetic: bound by the caches.
// Numerics: the same bits on every instruction set, whatever the rounding mode of the thread.
// Preconditions: none; count 0 does nothing.
// Test: tests/kernels/convert/convert_test.cpp; twin: convert_reference.h beside it.
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
