// Observations of a run of the plan, beside its logits.
#pragma once

#include "model/config/exit_rule.h"
#include "model/inference/cpu/channel_ranges.h"
#include "model/inference/cpu/stage_times.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace hydrascope::model::inference {

/// The tokens that enter some blocks, for explanations (model/explain) and for students
/// (model/training/distillation).
struct TokenTrace {
  /// Ascending. The number of blocks stands for the tokens that leave the last block, of which only
  /// the tokens with a query are written there.
  std::vector<std::int64_t> layers;
  float* tokens = nullptr;  ///< (images, layers, N, D)
  bool is_all = false;  ///< nothing else is wanted: neither later blocks nor logits are computed
};

/// The images' fate at a network's exits. Each of the last three may be null.
struct ExitRecord {
  bool leave = false;  ///< else all are looked at, and nobody leaves
  ExitRule rule = ExitRule::margin;
  double threshold = 1;
  std::int64_t* layers = nullptr;   ///< (images): the layer behind which it left, or the last one
  float* scores = nullptr;          ///< (images, exits)
  std::int64_t* classes = nullptr;  ///< (images, exits)
};

/// Each pointer may be null and costs nothing then.
struct Observers {
  StageTimes* times = nullptr;
  /// Raised to the largest values of the run; empty before the first. For calibration: allocates.
  ChannelRanges* ranges = nullptr;
  const TokenTrace* trace = nullptr;
  /// Called by `run`'s caller after each block with the number of blocks that are done; must not throw.
  const std::function<void(std::int64_t)>* block_done = nullptr;
  const ExitRecord* exits = nullptr;  ///< not together with a trace
  bool goes_on = false;               ///< `Meeting::goes_on`
};

}  // namespace hydrascope::model::inference
