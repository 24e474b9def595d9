// The pass over a set of pictures that `evaluate`, `compare` and `faithfulness` are.
#pragma once

#include "app/evaluate/evaluate_options.h"
#include "app/options/options.h"

namespace hydrascope::app {

/// Returns the exit code. `options` must be those of the command: of each job that is asked for.
int run_over_set(const ParsedOptions& options, const SetJobs& jobs);

}  // namespace hydrascope::app
