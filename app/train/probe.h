// A linear probe: the classifier alone, learned from stored vectors.
#pragma once

#include "app/options/options.h"

namespace hydrascope::app {

/// `train --store`: multinomial logistic regression on a store's vectors, by L-BFGS, with a penalty of
/// |W|^2 / 2 beside the summed loss, as scikit-learn's C = 1. Writes best.safetensors, the store's model with
/// that classifier, in the folder of the run. Returns the exit code.
int run_probe(const ParsedOptions& options);

}  // namespace hydrascope::app
