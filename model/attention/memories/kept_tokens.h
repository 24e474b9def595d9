// Memories of keys and values: what they keep of a frame, and the frame's attention beside it.
#pragma once

#include "model/attention/memories/frame_memory.h"

#include <vector>

namespace hydrascope::model {

/// Tokens of an earlier frame.
struct KeptTokens {
  torch::Tensor k, v;  ///< (1, H, M, d)
};

/// `mixer.mix_beside` of a frame and of what is kept, of age 1, 2, ... in frames; scores lose `decay` for
/// each. With nothing kept it is `mixer.mix`.
torch::Tensor mix_beside_kept(TokenMixer& mixer, const AttentionImpl::Projected& frame,
                              const TokenGrid& grid, Kernels kernels,
                              const std::vector<KeptTokens>& kept, double decay);

}  // namespace hydrascope::model
