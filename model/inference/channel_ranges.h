// What calibration learns from images: how large each channel of a linear layer's input gets.
#pragma once

#include <cstddef>
#include <vector>

namespace hydrascope::model::inference {

/// Greatest |x| of every input channel of a block's linear layers.
struct BlockRanges {
  std::vector<float> qkv;   ///< (D), the normalised rows
  std::vector<float> proj;  ///< (D)
  std::vector<float> fc1;   ///< (D), the normalised rows
  std::vector<float> fc2;   ///< (hidden)
};

using ChannelRanges = std::vector<BlockRanges>;

}  // namespace hydrascope::model::inference
