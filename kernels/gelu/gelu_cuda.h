#pragma once

#include "kernels/device/stream.h"
#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::gelu::cuda {

/// values[i] = gelu(values[i]) for all i < count, by erf.
void gelu(float* values, std::int64_t count, device::Stream stream);
void gelu(BFloat16* values, std::int64_t count, device::Stream stream);
void gelu(Float16* values, std::int64_t count, device::Stream stream);

}  // namespace hydrascope::kernels::gelu::cuda
