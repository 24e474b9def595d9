// convert: a trained model gets another attention and learns to give its old answers with it.
#pragma once

#include "app/convert/options.h"

namespace hydrascope::app {

/// Returns the exit code.
int distill(const ConvertRequest& request);

}  // namespace hydrascope::app
