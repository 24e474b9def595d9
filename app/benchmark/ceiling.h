// The processor's ceiling (kernels/device/cpu_ceiling.h) in the head of `benchmark`.
#pragma once

#include "app/results/json.h"
#include "kernels/device/cpu_ceiling.h"

#include <string>

namespace hydrascope::app {

/// threads, float32_gflop_per_s, bfloat16_gflop_per_s, int8_gop_per_s, l2_gb_per_s, memory_gb_per_s (1e9
/// operations or bytes), and `disturbed`: the names of the rates that may be too low.
OrderedJson to_json(const kernels::device::CpuCeiling& ceiling);

/// "float32 158 GFLOP/s, ..., memory 20.1 GB/s; disturbed: float32, memory". A field that is missing
/// or has another type than `to_json` gives is left out.
std::string ceiling_text(const OrderedJson& ceiling);

/// Whether two ceilings are one machine's: no rate is 15 % above the other's.
bool are_alike(const OrderedJson& a, const OrderedJson& b);

}  // namespace hydrascope::app
