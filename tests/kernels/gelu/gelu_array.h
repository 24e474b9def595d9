// GELU of a contiguous array: the door through which gelu-inl.h, the epilogue of linear layers, is
// tested.
// x and y (count): any alignment; y may be x.
#pragma once

#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::gelu {

void gelu(const float* x, float* y, std::int64_t count);
/// The cheaper approximation that is exact enough for what bfloat16 keeps.
void gelu(const float* x, BFloat16* y, std::int64_t count);

}  // namespace hydrascope::kernels::gelu
