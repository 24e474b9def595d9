// From the tokens that enter a block to what its mixer gets.
#pragma once

#include "model/block.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

namespace hydrascope::model::explain {

/// What is computed token by token is computed for so many at a time: only results have a row for
/// every token.
inline constexpr std::int64_t kChunkTokens = 1024;

/// Calls `body(first, count)` for consecutive chunks of `num_tokens`.
template <class Body>
void for_token_chunks(std::int64_t num_tokens, Body body) {
  for (std::int64_t first = 0; first < num_tokens; first += kChunkTokens)
    body(first, std::min(kChunkTokens, num_tokens - first));
}

/// (1, H, n, d) each.
struct MixerInputs {
  at::Tensor q;  ///< of the first tokens, or of all where the mixer needs them
  at::Tensor k;
  at::Tensor v;  ///< undefined unless asked for
};

/// tokens (1, N, D), queries of the first `num_queries`.
MixerInputs project_tokens(BlockImpl& block, const at::Tensor& tokens, std::int64_t num_queries,
                           bool with_values);

}  // namespace hydrascope::model::explain
