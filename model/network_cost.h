// What one image costs in a whole network. Free of LibTorch.
#pragma once

#include "model/config.h"

#include <cstdint>

namespace hydrascope::model {

/// 1e9 FLOPs (2 x multiply-adds) of one image of `tokens` tokens: linears, patch embedding and
/// heads, and token mixing as each layer's mechanism counts it. Norms, biases and activations
/// (below 1 %) are left out.
double gflops_per_image(const VitConfig& config, std::int64_t tokens);

}  // namespace hydrascope::model
