// From a block's input tokens to its mixer's inputs.
#pragma once

#include "model/block.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hydrascope::model::explain {

/// Tokens of one piece of a computation that goes token by token: only results have a row for every
/// token.
inline constexpr std::int64_t kChunkTokens = 1024;

/// (1, H, n, d) each.
struct MixerInputs {
  at::Tensor q;  ///< of the first tokens, or of all if the mixer needs them
  at::Tensor k;
  at::Tensor v;  ///< undefined unless requested
};

/// tokens (1, N, D), queries of the first `num_queries`.
MixerInputs project_tokens(BlockImpl& block, const at::Tensor& tokens, std::int64_t num_queries,
                           bool with_values);

}  // namespace hydrascope::model::explain
