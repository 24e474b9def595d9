// What a run of the plan notes down beside its logits.
#pragma once

#include "model/inference/cpu/channel_ranges.h"
#include "model/inference/cpu/stage_times.h"

#include <cstdint>
#include <vector>

namespace hydrascope::model::inference {

/// The tokens that enter some blocks, for explanations (model/explain).
struct TokenTrace {
  std::vector<std::int64_t> layers;  ///< ascending
  float* tokens = nullptr;           ///< (images, layers, N, D)
};

/// Each may be null and costs nothing then.
struct Observers {
  StageTimes* times = nullptr;
  /// Raised to what the run saw; empty before the first. For calibration: allocates.
  ChannelRanges* ranges = nullptr;
  const TokenTrace* trace = nullptr;
};

}  // namespace hydrascope::model::inference
