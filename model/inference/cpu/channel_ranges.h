// Calibration's result: the largest value of each channel of a linear layer's input.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
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

/// A linear layer's place in its block.
using RangeSite = std::vector<float> BlockRanges::*;

/// Raises the range of every channel to the largest |x| in `rows` (count, channels).
template <class T>
void raise(std::vector<float>& range, const T* rows, std::int64_t count, std::int64_t channels) {
  range.resize(static_cast<std::size_t>(channels));
  for (std::int64_t row = 0; row < count; ++row, rows += channels)
    for (std::int64_t i = 0; i < channels; ++i) {
      float& channel = range[static_cast<std::size_t>(i)];
      channel = std::max(channel, std::abs(static_cast<float>(rows[i])));
    }
}

/// Raises every range to at least its value in `more`.
inline void raise(ChannelRanges& ranges, const ChannelRanges& more) {
  for (std::size_t block = 0; block < more.size(); ++block) {
    for (const RangeSite site :
         {&BlockRanges::qkv, &BlockRanges::proj, &BlockRanges::fc1, &BlockRanges::fc2}) {
      const std::vector<float>& from = more[block].*site;
      if (!from.empty()) raise(ranges[block].*site, from.data(), 1, std::ssize(from));
    }
  }
}

}  // namespace hydrascope::model::inference
