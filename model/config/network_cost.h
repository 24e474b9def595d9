// What one image costs in a whole network.
#pragma once

#include "model/config/config.h"

#include <cstdint>
#include <optional>

namespace hydrascope::model {

/// Only `left` tokens go on after the attention of `layer`.
struct DroppedTokens {
  std::int64_t layer;
  std::int64_t left;
};

/// 1e9 FLOPs (2 x multiply-adds) of one image of that many tokens: linears, patch embedding and
/// heads, and token mixing as each layer's mechanism and position rule count it. Norms, biases and activations
/// (below 1 %) are left out.
double gflops_per_image(const VitConfig& config, const TokenGrid& grid,
                        const std::optional<DroppedTokens>& dropped = {});

}  // namespace hydrascope::model
