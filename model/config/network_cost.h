// The cost of one image in a whole network.
#pragma once

#include "model/config/config.h"

namespace hydrascope::model {

/// 1e9 FLOPs (2 x multiply-adds) of one image with the tokens of `grid`: linears, patch embedding,
/// heads, and the costs of token mixing that each layer's mechanism and position rule state. Norms,
/// biases and activations (below 1 %) are left out.
double gflops_per_image(const VitConfig& config, const TokenGrid& grid);

/// 1e9 FLOPs of these that the plans leave out: in the last block only prefix tokens have a query, an
/// output and an MLP unless patches are pooled. Token mixing counts as if its FLOPs were the queries'.
double gflops_left_out(const VitConfig& config, const TokenGrid& grid);

/// The number of weights in the linear layers of the blocks, each once: what every call reads. Patch
/// embedding, heads, biases and norms are left out.
double block_weights(const VitConfig& config);

}  // namespace hydrascope::model
