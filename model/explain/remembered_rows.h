// The parts that a frame's own tokens and earlier frames' tokens have in the output of a mixer with a
// memory. Test: tests/model/explain/remembered_rows_test.cpp.
#pragma once

#include "model/attention/memories/frame_memory.h"
#include "model/explain/mixer_inputs.h"

#include <ATen/core/Tensor.h>

namespace hydrascope::model::explain {

struct FrameParts {
  at::Tensor own;      ///< (G, H, N), of the frame's tokens
  at::Tensor earlier;  ///< (G, H), of all tokens that are kept
};

/// The parts of g . y, y the first n rows of the mixing of a frame beside `frames`, which stays as it is:
/// g (G, n, D). Mixing has to be linear in the values. A memory without frames has a part of exactly 0.
FrameParts parts_of(TokenMixer& mixer, FrameMemory& frames, const MixerInputs& inputs,
                    const TokenGrid& grid, const at::Tensor& g);

}  // namespace hydrascope::model::explain
