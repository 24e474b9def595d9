// The pass over a set of pictures that `evaluate`, `compare` and `faithfulness` are.
#pragma once

#include "app/evaluate/evaluate_options.h"

namespace hydrascope::app {

/// Returns the exit code.
int run_over_set(EvaluateRequest request);

}  // namespace hydrascope::app
