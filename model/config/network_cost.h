// The cost of one image in a whole network.
#pragma once

#include "model/config/config.h"

namespace hydrascope::model {

/// 1e9 FLOPs (2 x multiply-adds) of one image of that many tokens: linears, patch embedding and
/// heads, and token mixing as each layer's mechanism and position rule count it. Norms, biases and activations
/// (below 1 %) are left out.
double gflops_per_image(const VitConfig& config, const TokenGrid& grid);

}  // namespace hydrascope::model
