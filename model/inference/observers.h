// What a run of the plan notes down beside its logits.
#pragma once

#include "model/inference/channel_ranges.h"
#include "model/inference/stage_times.h"

namespace hydrascope::model::inference {

/// Each may be null and costs nothing then.
struct Observers {
  StageTimes* times = nullptr;
  /// Raised to what the run saw; empty before the first. For calibration: allocates.
  ChannelRanges* ranges = nullptr;
};

}  // namespace hydrascope::model::inference
