// convert: a trained model gets another attention and learns to give its old answers with it.
#pragma once

#include "app/options/requests.h"

#include <string>

namespace hydrascope::app {

/// Returns the exit code.
int distill(const ParsedOptions& options, const ModelRequest& model,
            const std::string& architecture);

}  // namespace hydrascope::app
