// The time of a run over pictures, by its parts.
#pragma once

#include <cstdint>
#include <string>

namespace hydrascope::app {

/// The time by parts; "core seconds" add up over workers.
struct PipelineTiming {
  std::int64_t images = 0;  ///< classified, failed ones not counted
  double seconds = 0;       ///< from the call's begin to its end
  double decode_core_seconds = 0;
  double transform_core_seconds = 0;
  double model_seconds = 0;  ///< the calling thread inside the model
  double wait_seconds = 0;   ///< the calling thread waiting for pictures
  PipelineTiming& operator+=(const PipelineTiming& other);
  /// "timing: images=500 seconds=... decode_core_seconds=..."
  [[nodiscard]] std::string describe(int threads, int workers) const;
};

}  // namespace hydrascope::app
